// Talk with the kernel: a question, its answer, and what is said where there is no kernel.

import type { Machine } from "./machine";

/** What the kernel answers; panes know the fields of what they ask. */
export type Reply = Readonly<Record<string, unknown>>;

/** Code that a file brought along, with all of its text. */
export interface Carried {
  readonly digest: string;
  readonly what: string;
  readonly source: string;
}

/** Why there is no answer: it would run code that nobody here has said to run. */
export class Refused extends Error {
  constructor(sentence: string, readonly carried: readonly Carried[]) {
    super(sentence);
  }
}

export interface Live {
  /** Whether there may be a kernel; whether it answers is only known by asking. */
  readonly hasKernel: boolean;
  /** What is said where there is none. */
  readonly sorry: string;
  /** Ask, with bytes if they belong to the question; what goes wrong is a sentence in the error. */
  ask(what: string, body?: Readonly<Record<string, unknown>>, data?: ArrayBuffer): Promise<Reply>;
  dispose(): void;
  /** What computes values in the page itself, once it was told to. */
  readonly machine?: Machine;
}

/** As much of a widget's model as is used. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: (...values: never[]) => void): void;
  off(event?: string | null, listener?: ((...values: never[]) => void) | null): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[] | ArrayBufferView[]): void;
  /** Jupyter's; its kernel is null where a notebook is open without one. */
  readonly widget_manager?: { readonly kernel?: unknown } | undefined;
}

export const NO_KERNEL = "This needs a kernel: open the notebook, or the recording, in JupyterLab and run it there.";
export const GONE = "The kernel that made this is gone, or was restarted: run the cell again.";
const ENDED = "Nobody answers any more: luminal-lab open was ended. Start it again to ask more.";
const TOO_LARGE = "The question is too large.";
const SILENT = "The kernel has not answered for a minute: it is busy, or gone. Run the cell again if it was restarted.";
const PATIENCE = 60_000;
/** So many times as long once the kernel has said that it is at work. */
const LONGER = 60;

/** Where there is none: in a page, or in a saved notebook. */
export function withoutKernel(machine?: Machine | null): Live {
  return { ...(machine ? { machine } : {}), hasKernel: false, sorry: NO_KERNEL, ask: () => Promise.reject(new Error(NO_KERNEL)), dispose: () => undefined };
}

/** The error that an answer tells of. */
function refusal(reply: Reply): Error | null {
  const error = reply["error"], carried = reply["carried"];
  if (typeof error !== "string") return null;
  return Array.isArray(carried) ? new Refused(error, carried as Carried[]) : new Error(error);
}

/** Ask at the page's own address, where `luminal-lab open` answers; `changed` is given the new bundle. */
export function throughServer(changed: (bytes: Uint8Array) => void, asking: typeof fetch = (...given) => fetch(...given)): Live {
  const bytesOf = async (address: string, how?: RequestInit): Promise<Response> => {
    const answer = await asking(address, how).catch(() => {
      throw new Error(ENDED);
    });
    if (!answer.ok) throw new Error(answer.status === 413 ? TOO_LARGE : ENDED);
    return answer;
  };
  return {
    hasKernel: true,
    sorry: ENDED,
    ask: async (what, body, data) => {
      const question = new Blob([`${JSON.stringify({ ...body, ask: what })}\n`, ...(data ? [data] : [])]);
      const reply = (await (await bytesOf("", { method: "POST", body: question })).json()) as Reply;
      if (reply["changed"]) changed(new Uint8Array(await (await bytesOf("data")).arrayBuffer()));
      const error = refusal(reply);
      if (error) throw error;
      return reply;
    },
    dispose: () => undefined,
  };
}

interface Waiting {
  answered(reply: Reply): void;
  failed(error: Error): void;
  clock: number;
}

/**
 * Ask through a widget's model: `{ask, request, …body}` goes out, `{reply: request, …}` comes back.
 * Something long says `{reply: request, working: true}` before it begins, and is waited for.
 */
export function throughModel(model: Model, patience = PATIENCE): Live {
  const waiting = new Map<number, Waiting>();
  let requests = 0;
  const heard = (message: Reply): void => {
    const request = message?.["reply"];
    const asked = typeof request === "number" ? waiting.get(request) : undefined;
    if (!asked) return;
    clearTimeout(asked.clock);
    if (message["working"]) {
      asked.clock = patient(request as number, asked, LONGER);
      return;
    }
    waiting.delete(request as number);
    const error = refusal(message);
    if (error) asked.failed(error);
    else asked.answered(message);
  };
  const patient = (request: number, asked: Waiting, times = 1): number =>
    Number(
      setTimeout(() => {
        waiting.delete(request);
        asked.failed(new Error(SILENT));
      }, patience * times),
    );
  // What is sent without a connection is lost without a word; Jupyter tells when one is cut.
  let isCut = false;
  const cut = function (this: { comm_live?: boolean } | undefined): void {
    isCut = this?.comm_live === false;
  };
  const hasKernel = (): boolean => !isCut && model.widget_manager?.kernel !== null;
  model.on("comm_live_update", cut as never);
  model.on("msg:custom", heard as never);
  return {
    get hasKernel() {
      return hasKernel();
    },
    // What has a model was made by a kernel.
    sorry: GONE,
    ask: (what, body, data) =>
      new Promise((answered, failed) => {
        if (!hasKernel()) {
          failed(new Error(GONE));
          return;
        }
        const request = ++requests;
        const asked: Waiting = { answered, failed, clock: 0 };
        asked.clock = patient(request, asked);
        waiting.set(request, asked);
        try {
          model.send({ ...body, ask: what, request }, undefined, data ? [data] : undefined);
        } catch {
          waiting.delete(request);
          clearTimeout(asked.clock);
          failed(new Error(GONE));
        }
      }),
    dispose: () => {
      model.off("msg:custom", heard as never);
      model.off("comm_live_update", cut as never);
      for (const asked of waiting.values()) clearTimeout(asked.clock);
      waiting.clear();
    },
  };
}
