/** What comes over the WebSocket, and with it the views of wire.d.ts; docs/protocol.md describes it. */
import type { HostView, HubTrouble, SessionView } from "./wire.js";

export interface Position {
  epoch: string;
  offset: number;
  now: number;
}

export interface Snapshot extends Position {
  type: "snapshot";
  sessions: SessionView[];
  hosts: HostView[];
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

export type Message = Snapshot | Deltas | Tick;
