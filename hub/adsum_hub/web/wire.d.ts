/** What the hub sends: SessionView, HostView and Summary of adsum_shared.state as JSON.
 *  A field that has its default is absent. Times are milliseconds of the hub's clock. */

export type Group = "needs_you" | "autonomous" | "delivered";
export type Reachability = "live" | "late" | "offline";

export interface AgentState {
  group: Group;
  /** An open set: one that this page has never heard of is shown by its group. */
  state: string;
  label: string;
  confidence: number;
  source: string;
  since: number;
  context?: Record<string, unknown> | null;
}

export interface RequestView {
  id: string;
  kind: string;
  opened_at: number;
  tool?: string | null;
  summary?: string | null;
  agent_id?: string | null;
  payload?: Record<string, unknown> | null;
}

export interface ChildView {
  id: string;
  kind: string;
  status: string;
  started_at?: number | null;
  finished_at?: number | null;
  type?: string | null;
  description?: string | null;
}

export interface SessionView {
  id: string;
  host_id: string;
  host: string;
  session_id: string;
  agent: string;
  state: AgentState;
  reachability: Reachability;
  updated_at: number;
  started_at?: number | null;
  urgency?: number | null;
  unread?: boolean;
  title?: string | null;
  project?: string | null;
  cwd?: string | null;
  branch?: string | null;
  model?: string | null;
  mode?: string | null;
  version?: string | null;
  pid?: number | null;
  requests?: RequestView[];
  children?: ChildView[];
  incomplete?: boolean;
}

export interface HostView {
  id: string;
  label: string;
  reachability: Reachability;
  last_seen: number;
  sessions?: number;
  version?: string | null;
  clock_offset_ms?: number;
  lag_ms?: number | null;
  backlog?: number;
  applied?: number;
  problem?: string | null;
}

export interface Position {
  epoch: string;
  offset: number;
  now: number;
}

export interface Snapshot extends Position {
  type: "snapshot";
  sessions: SessionView[];
  hosts: HostView[];
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
}

export type Message = Snapshot | Deltas | Tick;
