import type { IOutput } from '@jupyterlab/nbformat';
import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import * as React from 'react';

import { Attached } from './attached';
import { useEnv } from './env';
import { useFollow } from './follow';

const MAX_OUTPUTS = 50;

interface Given {
  readonly outputs: readonly IOutput[];
  readonly version: number;
  readonly label: string;
  /** Whether the end is what a person wants to see: of a cell that runs, or that has failed. */
  readonly atEnd: boolean;
}

/** The outputs of a cell, by JupyterLab's own output area, which trusts none of them. */
export function Outputs({ outputs, version, label, atEnd }: Given): JSX.Element {
  const { rendermime } = useEnv();
  const shown = React.useRef<IOutput[]>([]);
  const place = React.useRef<HTMLDivElement>(null);
  const inner = React.useRef<HTMLDivElement>(null);
  const { scrolled } = useFollow(place, inner, atEnd);
  const [area, setArea] = React.useState<SimplifiedOutputArea | null>(null);
  React.useEffect(() => {
    const model = new OutputAreaModel({ trusted: false });
    const made = new SimplifiedOutputArea({ model, rendermime, maxNumberOutputs: MAX_OUTPUTS, promptOverlay: false });
    shown.current = [];
    // Outputs are rendered in their own time; their pictures have no words.
    const observer = new MutationObserver(() => {
      for (const image of made.node.querySelectorAll('img:not([alt])')) {
        image.setAttribute('alt', label);
      }
    });
    observer.observe(made.node, { childList: true, subtree: true });
    setArea(made);
    return () => {
      observer.disconnect();
      made.dispose();
      model.dispose();
    };
  }, [rendermime, label]);
  React.useEffect(() => {
    if (area && !area.isDisposed) {
      show(area.model as OutputAreaModel, shown.current, outputs);
      shown.current = [...outputs];
    }
  }, [area, outputs, version]);
  return (
    <div ref={place} tabIndex={0} role="group" aria-label={label} className="nba-Outputs" onScroll={scrolled}>
      <div ref={inner}>{area && <Attached widget={area} />}</div>
    </div>
  );
}

/** Change what differs only: drawing all of it again would make it flicker. */
function show(model: OutputAreaModel, before: readonly IOutput[], now: readonly IOutput[]): void {
  let place = 0;
  while (place < before.length && place < now.length && same(before[place], now[place])) {
    place++;
  }
  const last = place === before.length - 1 && now.length > place;
  if (last && before[place].output_type === 'stream' && now[place].output_type === 'stream') {
    const [old, fresh] = [String(before[place].text), String(now[place].text)];
    if (fresh.startsWith(old) && before[place].name === now[place].name) {
      model.add({ ...now[place], text: fresh.slice(old.length) } as IOutput);
      place++;
    }
  }
  if (place < before.length && now.length < before.length) {
    model.fromJSON([...now]);
    return;
  }
  for (; place < now.length; place++) {
    if (place < model.length) {
      model.set(place, now[place]);
    } else {
      model.add(now[place]);
    }
  }
}

function same(one: IOutput, other: IOutput): boolean {
  return one === other || (one.output_type === other.output_type && JSON.stringify(one) === JSON.stringify(other));
}
