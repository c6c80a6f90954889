// All that is shown, as read from the bytes that Python sends.

import { Columns, damaged, parts, unpacked, type Header } from "./columns";
import { Run, type RunHeader } from "./model";

interface BundleHeader extends Header {
  readonly made: string;
  readonly title: string;
  readonly strings: readonly string[];
  readonly runs: readonly RunHeader[];
}

/** All that is shown: graphs, passes and facts of one or several runs. */
export class Bundle extends Columns<BundleHeader> {
  readonly title: string;
  readonly strings: readonly string[];
  readonly runs: readonly Run[];

  constructor(header: BundleHeader, data: Uint8Array) {
    super(header, data);
    const { strings, runs } = header;
    if (!Array.isArray(strings) || !Array.isArray(runs) || !runs.length) throw damaged("its header lacks parts");
    this.title = header.title;
    this.strings = strings;
    this.runs = runs.map((run, index) => new Run(this, index, run));
  }
}

/** Read a bundle, packed with zlib or not. */
export async function decode(bytes: ArrayBuffer | ArrayBufferView): Promise<Bundle> {
  return read(await unpacked(bytes));
}

/** Read a bundle that is not packed. */
export function read(bytes: Uint8Array): Bundle {
  const { header, data } = parts<BundleHeader>(bytes);
  return new Bundle(header, data);
}
