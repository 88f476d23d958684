/** What goes along with the next question: files of the person's, and of the server. */
import { PathExt } from '@jupyterlab/coreutils';
import { ServerConnection, type ServiceManager } from '@jupyterlab/services';

import type { Attached } from './asking';
import type { Assistant } from './assistant';
import { Problem } from './request';

const MIB = 1024 * 1024;

/** The files that go along. */
export class Attachments {
  files: readonly Attached[] = [];

  constructor(private readonly assistant: Assistant) {}

  /** Have files go along; those that are larger than the server takes are refused. */
  add(files: Iterable<File>): void {
    const { trans } = this;
    const large: string[] = [];
    for (const file of files) {
      if (file.size > this.most * MIB) {
        large.push(file.name);
      } else {
        this.files = [...this.files, { name: this.freeName(PathExt.basename(file.name.replace(/\\/g, '/')) || 'pasted'), content: file }];
      }
    }
    if (large.length) {
      this.assistant.fail(
        new Problem(
          trans.__('Larger than the %1 MB that can be uploaded: %2.', this.most, large.join(', ')),
          trans.__('Put it into the list of files at the left, and drag it here: data of a new session may be of any size.')
        )
      );
    }
    this.assistant.touch();
  }

  /** Have what was dropped or pasted go along. A browser hands over no folder. */
  addFrom({ items }: DataTransfer): void {
    const { trans } = this;
    const found = [...items].filter(item => item.kind === 'file');
    const isFolder = (item: DataTransferItem) => item.webkitGetAsEntry()?.isDirectory ?? false;
    const folder = found.find(isFolder)?.webkitGetAsEntry();
    if (folder) {
      this.assistant.fail(
        new Problem(
          trans.__('%1 is a folder.', folder.name),
          trans.__('Drop the files in it, or drag it here from the list of files at the left, as data of a new session.')
        )
      );
    }
    this.add(found.filter(item => !isFolder(item)).flatMap(item => item.getAsFile() ?? []));
  }

  /**
   * Fetch files of the server, as a browser would download them, and have them go along. Folders and large files are
   * data of a session that begins with the question.
   */
  async addPaths(paths: readonly string[], { contents, serverSettings }: ServiceManager.IManager): Promise<void> {
    const { assistant, trans } = this;
    for (const path of paths) {
      try {
        const { type, size } = await contents.get(path, { content: false });
        if (type === 'directory' || (size ?? 0) > this.most * MIB) {
          if (assistant.session !== null) {
            throw new Problem(trans.__('%1 can only be data of a new session.', path), trans.__('Begin one, and drag it there.'));
          }
          assistant.setData([...(assistant.choices.data ?? []), path]);
          continue;
        }
        const response = await ServerConnection.makeRequest(await contents.getDownloadUrl(path), {}, serverSettings);
        if (!response.ok) {
          throw new Problem(trans.__("%1 can't be read.", path), trans.__('Look whether it is still there.'));
        }
        this.add([new File([await response.blob()], PathExt.basename(path))]);
      } catch (error) {
        assistant.fail(error);
      }
    }
  }

  /** Leave a file out again; without a name, all of them. */
  remove(name?: string): void {
    this.files = name === undefined ? [] : this.files.filter(each => each.name !== name);
    this.assistant.touch();
  }

  private get trans() {
    return this.assistant.server.trans;
  }

  /** MiB of the largest file that can be uploaded. */
  private get most(): number {
    return this.assistant.machine.status?.max_upload_mb || Infinity;
  }

  /** A name that no attached file has: browsers give all pasted pictures the same. */
  private freeName(name: string): string {
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/s.exec(name)!;
    let free = name;
    for (let number = 2; this.files.some(each => each.name === free); number++) {
      free = `${stem}-${number}${ending ?? ''}`;
    }
    return free;
  }
}
