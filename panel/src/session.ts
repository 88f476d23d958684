/** A session that is open in the panel: its conversation, and the channel over which it comes. */
import { ISignal, Signal } from '@lumino/signaling';

import { Channel } from './channel';
import { Conversation } from './model';
import type { Server } from './request';

export class OpenSession {
  readonly conversation: Conversation;
  readonly channel: Channel;
  /** The model that the person chose in it; empty if none. */
  model = '';
  /** Whether the records so far have come. */
  ready = false;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    readonly id: string,
    server: Server
  ) {
    this.conversation = new Conversation(server.trans);
    this.channel = new Channel(server, id);
    this.channel.records.connect((_, records) => {
      this.conversation.take(records);
      this._changed.emit();
    });
    this.channel.words.connect((_, { turn, text }) => {
      this.conversation.say(turn, text);
      this._changed.emit();
    });
    this.channel.changed.connect(channel => {
      this.ready ||= channel.state !== '';
      if (channel.state === 'running' && channel.connection === 'open') {
        channel.call('attend').catch(() => undefined);
      }
      this._changed.emit();
    });
  }

  /** Something of it changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /**
   * Wait for the connection, and until what happened so far has come over it.
   *
   * @throws The channel's `problem`: there is no such session any more, or it can't be had.
   */
  async settled(): Promise<void> {
    const { channel } = this;
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        const isOver = channel.connection === 'refused' || channel.connection === 'closed' || channel.state === 'gone';
        if (isOver || channel.isWhole) {
          this._changed.disconnect(look);
          isOver ? reject(channel.over) : resolve();
        }
      };
      this._changed.connect(look);
      look();
    });
  }

  close(): void {
    this.channel.close();
    this._changed.emit();
    Signal.clearData(this);
  }
}
