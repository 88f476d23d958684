/** What all parts of the view share, and the hooks that have them drawn again. */
import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import type { Assistant } from '../assistant';
import { problemOf } from '../request';

/** Something that `@` can name. */
export interface Mention {
  /** What is inserted. */
  readonly text: string;
  /** What it is, for the person. */
  readonly about: string;
  readonly kind: 'file' | 'variable' | 'cell';
  /** The path of a file of the server that goes along if it is named. */
  readonly path?: string;
}

/** The parts of JupyterLab that the view uses. */
export interface Env {
  readonly assistant: Assistant;
  readonly trans: TranslationBundle;
  readonly rendermime: IRenderMimeRegistry;
  readonly languages: IEditorLanguageRegistry;
  readonly editors: IEditorServices;
  /** Finds what a word after `@` can stand for. */
  readonly mentions: (word: string) => Promise<Mention[]>;
  /** Have files of the server go along with the question. */
  readonly attach: (paths: readonly string[]) => Promise<void>;
  /** Run a command of JupyterLab's. */
  readonly run: (command: string, given?: { [name: string]: string }) => void;
  /** Whether Enter sends a question, and Shift+Enter begins a line. */
  readonly enterSends: () => boolean;
}

export const EnvContext = React.createContext<Env>(null!);

export function useEnv(): Env {
  return React.useContext(EnvContext);
}

/** Milliseconds after which a change is drawn though no frame comes, as in a window that nobody sees. */
const LATEST = 250;

/** Draw again when a signal is emitted, at most once a frame. */
export function useChanged(signal: ISignal<unknown, unknown>): void {
  const [, count] = React.useReducer((before: number) => before + 1, 0);
  React.useEffect(() => {
    let frame = 0;
    let timer = 0;
    const forget = () => {
      cancelAnimationFrame(frame);
      window.clearTimeout(timer);
      frame = timer = 0;
    };
    const draw = () => {
      forget();
      count();
    };
    const changed = () => {
      if (frame === 0) {
        frame = requestAnimationFrame(draw);
        timer = window.setTimeout(draw, LATEST);
      }
    };
    signal.connect(changed);
    draw(); // what changed before this was heard
    return () => {
      signal.disconnect(changed);
      forget();
    };
  }, [signal]);
}

/**
 * Ask for something once nothing was changed for so many milliseconds; what comes after the next change is dropped.
 *
 * @param changed What the answer depends on.
 * @param failed Told why there is none.
 */
export function useAnswer<T>(
  ask: () => Promise<T>,
  wait: number,
  changed: readonly unknown[],
  take: (answer: T) => void,
  failed: (why: string) => void = () => undefined
): void {
  React.useEffect(() => {
    let gone = false;
    const told = <V,>(tell: (value: V) => void) => (value: V) => gone || tell(value);
    const timer = window.setTimeout(() => void ask().then(told(take), told(error => failed(problemOf(error).message))), wait);
    return () => {
      gone = true;
      window.clearTimeout(timer);
    };
  }, changed);
}

/** The time in milliseconds since the epoch, again and again while something runs. */
export function useNow(runs: boolean, every = 500): number {
  const [now, set] = React.useState(Date.now);
  React.useEffect(() => {
    if (!runs) {
      return undefined;
    }
    const timer = window.setInterval(() => set(Date.now()), every);
    return () => window.clearInterval(timer);
  }, [runs, every]);
  return now;
}

/** Seconds as a person says them. */
export function duration(seconds: number): string {
  if (seconds < 60) {
    return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  }
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Bytes as a person says them. */
export function bytes(size: number): string {
  const units = ['B', 'KB', 'MB', 'GB'];
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

/** A count of tokens as a person says it. */
export function count(number: number): string {
  return number < 10_000 ? number.toLocaleString() : `${Math.round(number / 1000).toLocaleString()}k`;
}

/** An amount of US dollars; small ones with two significant digits. */
export function dollars(amount: number): string {
  return `$${amount < 0.1 ? Number(amount.toPrecision(2)) : amount.toFixed(2)}`;
}
