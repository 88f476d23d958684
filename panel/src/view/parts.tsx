/** The small parts of a conversation: questions, words, files and sentences of nbagent's own. */
import { downloadIcon, fileIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { Files, Notice, Question, Words } from '../items';
import { isTitled } from '../question';
import { visible } from '../safe';
import { bytes, useEnv } from './env';
import { Markdown } from './markdown';

/** Lines of a question that are shown at first: it may have a cell in it. */
const FOLDED = 3;

export function QuestionPart({ item }: { item: Question }): JSX.Element {
  const { trans } = useEnv();
  const [whole, setWhole] = React.useState(false);
  const lines = item.text.split('\n');
  const folds = lines.length > FOLDED + 2;
  return (
    <article className="nba-Question" aria-label={trans.__('You asked')}>
      <p>{visible(folds && !whole ? lines.slice(0, isTitled(item.text) ? 1 : FOLDED).join('\n') : item.text)}</p>
      {folds && (
        <button className="nba-Link" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? trans.__('Show less') : trans.__('Show all %1 lines', lines.length)}
        </button>
      )}
      {item.replay && <span className="nba-Note">{trans.__('recorded replies; everything else is live')}</span>}
    </article>
  );
}

export function WordsPart({ item }: { item: Words }): JSX.Element {
  return (
    <div className="nba-Words">
      <Markdown text={item.text} />
    </div>
  );
}

export function NoticePart({ item }: { item: Notice }): JSX.Element {
  return <p className={`nba-Notice nba-mod-${item.tone}`}>{visible(item.text)}</p>;
}

export function FilesPart({ item }: { item: Files }): JSX.Element {
  const { assistant, trans } = useEnv();
  const session = assistant.session?.id ?? '';
  return (
    <ul className="nba-Files" aria-label={trans.__('Files')}>
      {item.files.map(file => (
        <li key={file.path}>
          <fileIcon.react tag="span" className="nba-FileIcon" aria-hidden="true" />
          <span className="nba-FileName" title={visible(file.path)}>{visible(file.name)}</span>
          <span className="nba-Elapsed">{bytes(file.size)}</span>
          <a
            className="nba-IconButton"
            href={assistant.server.address(`sessions/${session}/artifacts/${session}:${file.seq}`)}
            download={visible(file.name)}
            title={trans.__('Download')}
            aria-label={trans.__('Download %1', visible(file.name))}
          >
            <downloadIcon.react tag="span" />
          </a>
        </li>
      ))}
    </ul>
  );
}
