/** What comes over the WebSocket, and with it the views of wire.d.ts; docs/protocol.md describes it. */
import type { Group, HostView, HubTrouble, SessionView } from "./wire.js";

export interface Position {
  epoch: string;
  offset: number;
  now: number;
}

export interface Snapshot extends Position {
  type: "snapshot";
  sessions: SessionView[];
  /** In the first part alone. */
  hosts?: HostView[];
  /** In all parts but the last: how many are still to come, those of offline hosts apart. */
  more?: Record<Group, number>;
  trouble?: HubTrouble;
}

export interface Deltas extends Position {
  type: "deltas";
  sessions?: SessionView[];
  gone?: string[];
  hosts?: HostView[];
  gone_hosts?: string[];
}

export interface Tick extends Position {
  type: "tick";
  trouble?: HubTrouble;
}

declare global {
  interface Window {
    /** The link as early.js has opened it, and what has come. */
    early?: { socket: WebSocket; heard: MessageEvent[] };
  }
}

export type Message = Snapshot | Deltas | Tick;
