import { caretDownIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { Item } from '../items';
import type { Conversation } from '../model';
import { AnswerPart } from './answer';
import { ApprovalCard } from './approval';
import { CellCard } from './cell';
import { useEnv } from './env';
import { useFollow } from './follow';
import { HostCard } from './host';
import { FilesPart, NoticePart, QuestionPart, WordsPart } from './parts';
import { Slots } from './slots';

/** All that happened in a session, from the top; it follows the end unless the person has scrolled away from it. */
export function ConversationView({ conversation }: { conversation: Conversation }): JSX.Element {
  const { trans } = useEnv();
  const place = React.useRef<HTMLDivElement>(null);
  const inner = React.useRef<HTMLOListElement>(null);
  const { away, toEnd, scrolled } = useFollow(place, inner);
  return (
    <div className="nba-Middle">
      <div
        ref={place}
        className="nba-Conversation"
        tabIndex={0}
        role="region"
        aria-label={trans.__('Conversation')}
        onScroll={scrolled}
      >
        <ol ref={inner}>
          <Slots items={conversation.items} scroller={place} render={render} />
        </ol>
      </div>
      {away && (
        <button className="nba-ToEnd" title={trans.__('To the end')} aria-label={trans.__('To the end')} onClick={toEnd}>
          <caretDownIcon.react tag="span" />
        </button>
      )}
      <News text={conversation.news} />
    </div>
  );
}

/** Said to who does not see the page, when something of weight happens. */
function News({ text }: { text: string }): JSX.Element {
  return <div className="nba-Hidden" role="status" aria-live="polite">{text}</div>;
}

function render(item: Item): JSX.Element {
  switch (item.kind) {
    case 'question':
      return <QuestionPart item={item} />;
    case 'words':
      return <WordsPart item={item} />;
    case 'cell':
      return <CellCard cell={item} version={item.version} />;
    case 'approval':
      return <ApprovalCard item={item} version={item.version} />;
    case 'host':
      return <HostCard item={item} version={item.version} />;
    case 'answer':
      return <AnswerPart item={item} version={item.version} />;
    case 'files':
      return <FilesPart item={item} />;
    case 'notice':
      return <NoticePart item={item} />;
  }
}
