import * as React from 'react';

import { visible } from '../safe';
import { Mention, useAnswer, useEnv } from './env';

const WORD = /(?:^|\s)@([^\s@]*)$/;

export interface CompletionState {
  readonly open: boolean;
  /** What is said of a word that stands for nothing; empty where something was found. */
  readonly told: string;
  readonly found: readonly Mention[];
  readonly chosen: number;
  /** Look at the word before the cursor. */
  readonly look: () => void;
  /** Look, after a key that may have moved the cursor. */
  readonly released: (event: React.KeyboardEvent) => void;
  /** Write an `@`. */
  readonly begin: () => void;
  readonly take: (place: number) => void;
  /** Whether the key was meant for the list. */
  readonly key: (event: React.KeyboardEvent) => boolean;
}

/** What `@` and the letters after it can stand for: files, variables and cells. */
export function useCompletion(
  input: React.RefObject<HTMLTextAreaElement>,
  text: string,
  setText: (text: string) => void
): CompletionState {
  const { mentions, attach, trans } = useEnv();
  const [word, setWord] = React.useState<string | null>(null);
  const [found, setFound] = React.useState<readonly Mention[]>([]);
  /** The word of which `found` was said. */
  const [asked, setAsked] = React.useState<string | null>(null);
  /** The word with which the person wanted to send the question, though it stands for nothing. */
  const [sent, setSent] = React.useState<string | null>(null);
  const [chosen, choose] = React.useState(0);
  const look = React.useCallback(() => {
    const area = input.current!;
    const match = WORD.exec(area.value.slice(0, area.selectionStart));
    setWord(match ? match[1] : null);
  }, [input]);
  React.useEffect(look, [text, look]);
  const show = (list: readonly Mention[]) => {
    setFound(list);
    setAsked(word);
    choose(0);
  };
  useAnswer(async () => (word === null ? [] : mentions(word)), 60, [word, mentions], show);
  const write = (before: string, after: string) => {
    setText(before + after);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(before.length, before.length);
      look();
    });
  };
  const take = (place: number) => {
    const area = input.current!;
    const at = area.selectionStart;
    const start = at - (word?.length ?? 0) - 1;
    const { text: name, path } = found[place];
    write(`${area.value.slice(0, start)}${name} `, area.value.slice(at));
    if (path !== undefined) {
      void attach([path]);
    }
    setWord(null);
  };
  const begin = () => {
    const area = input.current!;
    const before = area.value.slice(0, area.selectionStart);
    write(`${before}${before && !/\s$/.test(before) ? ' ' : ''}@`, area.value.slice(area.selectionStart));
  };
  const released = (event: React.KeyboardEvent) => {
    // The key that closed the list must not open it again.
    if (event.key !== 'Escape') {
      look();
    }
  };
  const open = word !== null && found.length > 0;
  const isDead = !!word && found.length === 0;
  const dead = trans.__('No file, variable or cell is called “%1”.', visible(word ?? ''));
  const told = !isDead ? '' : sent === word ? `${dead} ${trans.__('Enter again asks all the same.')}` : asked === word ? dead : '';
  const key = (event: React.KeyboardEvent) => {
    if (event.nativeEvent.isComposing || !(open || isDead)) {
      return false;
    }
    if (isDead) {
      if (event.key === 'Escape' && told) {
        setWord(null);
      } else if (event.key === 'Enter' && !event.shiftKey && sent !== word) {
        setSent(word);
      } else {
        return false;
      }
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : -1;
      choose((chosen + step + found.length) % found.length);
    } else if (event.key === 'Enter' || event.key === 'Tab') {
      take(chosen);
    } else if (event.key === 'Escape') {
      setWord(null);
    } else {
      return false;
    }
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  return { open, told, found, chosen, look, released, begin, take, key };
}

/** The list of what `@` can stand for. */
export function Completion({ state }: { state: CompletionState }): JSX.Element {
  const { trans } = useEnv();
  const list = React.useRef<HTMLUListElement>(null);
  React.useEffect(() => {
    list.current?.children[state.chosen]?.scrollIntoView({ block: 'nearest' });
  }, [state.chosen]);
  return (
    <>
      <p className="nba-Popup nba-Completion nba-Note" role="status" hidden={!state.told}>{state.told}</p>
      <ul
        ref={list}
        id="nba-completion"
        className="nba-Popup nba-Completion"
        role="listbox"
        aria-label={trans.__('Files, variables and cells')}
        hidden={!state.open}
      >
        {state.found.map((each, place) => (
          <li
            key={`${each.kind} ${each.text}`}
            id={`nba-completion-${place}`}
            role="option"
            aria-selected={place === state.chosen}
            onMouseDown={event => {
              event.preventDefault();
              state.take(place);
            }}
          >
            <span>{visible(each.text)}</span>
            <span className="nba-Elapsed">{each.about}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
