import { closeIcon, fileUploadIcon, stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { visible } from '../safe';
import { Choices } from './choices';
import { Completion, useCompletion } from './completion';
import { bytes, useEnv } from './env';
import { sendIcon } from './icons';

const MAX_HEIGHT = 240;
/** Characters of a text that surely fills that height: laying out a long one only to measure it takes seconds. */
const SURELY_HIGH = 5_000;
/**
 * Characters that come at once, pasted or dropped, above which they are a file: data is read by code, and a question by
 * the model. A field with megabytes in it would hold up the page for each key.
 */
const MOST_PASTED = 20_000;
/** Where a window keeps what is written and not sent, for when it is loaded again. */
const DRAFT = 'nbagent:draft';

/** Where a person asks: the text, what goes along with it, and Ask or Stop. */
export function Composer({ input }: { input: React.RefObject<HTMLTextAreaElement> }): JSX.Element {
  const { assistant, trans, enterSends } = useEnv();
  const [text, setText] = React.useState(() => sessionStorage.getItem(DRAFT) ?? '');
  const picker = React.useRef<HTMLInputElement>(null);
  const completion = useCompletion(input, text, setText);
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  const { busy, subject, attachments, machine } = assistant;
  const { files } = attachments;
  const data = (assistant.session === null && assistant.choices.data) || [];

  React.useLayoutEffect(() => {
    try {
      sessionStorage.setItem(DRAFT, text);
    } catch {
      // A text of megabytes has no room there, and is no draft after a reload.
    }
    const area = input.current!;
    const isHigh = text.length > SURELY_HIGH;
    if (!isHigh) {
      area.style.height = 'auto';
    }
    area.style.height = `${isHigh ? MAX_HEIGHT : Math.min(MAX_HEIGHT, area.scrollHeight)}px`;
  }, [text, input]);

  const attach = (found: Iterable<File>) => {
    attachments.add(found);
    input.current?.focus();
  };
  /** Whether a text that is about to come in is long: then it goes along as a file. */
  const isTaken = (event: React.SyntheticEvent, coming: string) => {
    const isLong = coming.length > MOST_PASTED;
    if (isLong) {
      event.preventDefault();
      attachments.add([new File([coming], 'pasted.txt')]);
    }
    return isLong;
  };
  const change = (event: React.ChangeEvent<HTMLTextAreaElement>) => {
    const { value } = event.target;
    const [begin, end] = value.length - text.length > MOST_PASTED ? changed(text, value) : [0, 0];
    setText(isTaken(event, value.slice(begin, end)) ? value.slice(0, begin) + value.slice(end) : value);
  };
  const ask = async () => {
    const question = text.trim();
    if (!question || busy || machine.problem) {
      return;
    }
    setText('');
    attachments.remove();
    if (!(await assistant.ask(question, files, subject))) {
      // Nothing a person wrote is lost.
      setText(now => now || question);
      attachments.add(files.map(file => file.content));
    }
  };
  const stop = () => {
    void assistant.stop();
    draw(); // at once, where what else changes is drawn with the next frame
  };
  const key = (event: React.KeyboardEvent) => {
    if (completion.key(event)) {
      return;
    }
    if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
      const sends = enterSends() ? !event.shiftKey : event.ctrlKey || event.metaKey;
      if (sends) {
        event.preventDefault();
        void ask();
      }
    } else if (event.key === 'Escape' && busy) {
      event.preventDefault();
      stop();
    }
  };
  return (
    <form
      className="nba-Composer"
      onSubmit={event => {
        event.preventDefault();
        void ask();
      }}
    >
      <Completion state={completion} />
      {(files.length > 0 || data.length > 0 || subject) && (
        <ul className="nba-Chips" aria-label={trans.__('What goes along')}>
          {subject && <Chip name={subject.label} title={subject.text} leave={() => assistant.discuss(null)} />}
          {data.map(path => (
            <Chip key={`/${path}`} name={path} about={trans.__('data')} leave={() => assistant.setData(data.filter(each => each !== path))} />
          ))}
          {files.map(({ name, content }) => (
            <Chip key={name} name={name} about={bytes(content.size)} leave={() => attachments.remove(name)} />
          ))}
        </ul>
      )}
      <textarea
        ref={input}
        className="nba-Text"
        rows={1}
        value={text}
        placeholder={trans.__('Ask about your data…')}
        aria-label={trans.__('Your question')}
        aria-autocomplete="list"
        aria-controls={completion.open ? 'nba-completion' : undefined}
        aria-activedescendant={completion.open ? `nba-completion-${completion.chosen}` : undefined}
        onChange={change}
        onKeyDown={key}
        onKeyUp={completion.released}
        onClick={completion.look}
        onDrop={event => void isTaken(event, event.dataTransfer.getData('text/plain'))}
        onPaste={event => {
          if (event.clipboardData.files.length) {
            event.preventDefault();
            attachments.addFrom(event.clipboardData);
          } else {
            isTaken(event, event.clipboardData.getData('text/plain'));
          }
        }}
      />
      <div className="nba-Actions">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={event => {
            attach(event.target.files ?? []);
            event.target.value = '';
          }}
        />
        <button
          type="button"
          className="nba-IconButton"
          title={trans.__('Attach files; or drag or paste them here')}
          aria-label={trans.__('Attach files')}
          onClick={() => picker.current?.click()}
        >
          <fileUploadIcon.react tag="span" />
        </button>
        <button
          type="button"
          className="nba-IconButton"
          title={trans.__('Name a file, a variable or a cell')}
          aria-label={trans.__('Name a file, a variable or a cell')}
          onClick={() => completion.begin()}
        >
          <span className="nba-At" aria-hidden="true">@</span>
        </button>
        <Choices />
        <span className="nba-Space" />
        {busy ? (
          <button
            key="stop"
            type="button"
            className="nba-Button nba-mod-warn nba-Stop"
            title={trans.__('Stop the answer and its cell (Escape)')}
            onClick={stop}
          >
            <stopIcon.react tag="span" />
            {assistant.stopping ? trans.__('Stopping…') : trans.__('Stop')}
          </button>
        ) : (
          <button key="ask" type="submit" className="nba-Button nba-mod-accept" disabled={!text.trim() || machine.problem !== null}>
            <sendIcon.react tag="span" />
            {trans.__('Ask')}
          </button>
        )}
      </div>
    </form>
  );
}

/** Where the part of a text begins and ends that another one had not. */
function changed(before: string, after: string): [begin: number, end: number] {
  let begin = 0;
  while (begin < before.length && before[begin] === after[begin]) {
    begin++;
  }
  let same = 0;
  while (same < before.length - begin && before[before.length - 1 - same] === after[after.length - 1 - same]) {
    same++;
  }
  return [begin, after.length - same];
}

interface ChipGiven {
  readonly name: string;
  readonly about?: string;
  readonly title?: string;
  readonly leave: () => void;
}

/** Something that goes along with the question. */
function Chip({ name, about, title, leave }: ChipGiven): JSX.Element {
  const { trans } = useEnv();
  return (
    <li className="nba-Chip" title={title ?? visible(name)}>
      <span>{visible(name)}</span>
      {about && <span className="nba-Elapsed">{about}</span>}
      <button type="button" className="nba-IconButton" aria-label={trans.__('Leave out %1', visible(name))} onClick={leave}>
        <closeIcon.react tag="span" />
      </button>
    </li>
  );
}
