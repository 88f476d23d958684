import * as React from 'react';

import type { Item } from '../items';

/** How far from what is in view an item is drawn, in pixels. */
const MARGIN = 1200;
/** Items that are drawn in one frame while a person scrolls. */
const MOST_A_FRAME = 6;

const ESTIMATES: { [kind in Item['kind']]: number } = {
  question: 48, words: 40, cell: 180, approval: 44, host: 60, answer: 90, files: 36, notice: 24
};

interface Given {
  readonly items: readonly Item[];
  readonly scroller: React.RefObject<HTMLElement>;
  readonly render: (item: Item) => JSX.Element;
}

/** A long list of which only what is near the view is drawn; the rest keeps its place with its last height. */
export function Slots({ items, scroller, render }: Given): JSX.Element {
  const [watch] = React.useState(() => new Watch(scroller));
  React.useEffect(() => () => watch.close(), [watch]);
  return (
    <>
      {items.map((item, place) => (
        <Slot key={item.key} item={item} version={item.version} isLast={place >= items.length - 3} watch={watch} render={render} />
      ))}
    </>
  );
}

interface SlotGiven {
  readonly item: Item;
  readonly version: number;
  readonly isLast: boolean;
  readonly watch: Watch;
  readonly render: (item: Item) => JSX.Element;
}

const Slot = React.memo(function Slot({ item, isLast, watch, render }: SlotGiven): JSX.Element {
  const place = React.useRef<HTMLLIElement>(null);
  const height = React.useRef(ESTIMATES[item.kind]);
  const [near, setNear] = React.useState(isLast);
  React.useEffect(() => {
    const element = place.current!;
    watch.add(element, now => {
      if (!now) {
        height.current = element.offsetHeight || height.current;
      }
      setNear(now);
    });
    return () => watch.remove(element);
  }, [watch]);
  // One that waits for an answer keeps what the person has typed.
  const shown = near || ((item.kind === 'approval' || item.kind === 'host') && item.decision === '');
  return (
    <li ref={place} className="nba-Slot" style={shown ? undefined : { height: height.current }}>
      {shown && render(item)}
    </li>
  );
});

/** Tells each slot when it comes near the view, a few in a frame, and when it is far again. */
class Watch {
  private observer: IntersectionObserver | null = null;
  private readonly slots = new Map<Element, (near: boolean) => void>();
  private readonly coming = new Set<Element>();
  private frame = 0;

  constructor(private readonly scroller: React.RefObject<HTMLElement>) {}

  add(element: Element, tell: (near: boolean) => void): void {
    this.observer ??= new IntersectionObserver(seen => this.take(seen), {
      root: this.scroller.current,
      rootMargin: `${MARGIN}px 0px`
    });
    this.slots.set(element, tell);
    this.observer.observe(element);
  }

  remove(element: Element): void {
    this.slots.delete(element);
    this.coming.delete(element);
    this.observer?.unobserve(element);
  }

  close(): void {
    this.observer?.disconnect();
    this.observer = null;
    cancelAnimationFrame(this.frame);
  }

  private take(seen: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting) {
        this.coming.add(target);
      } else {
        this.coming.delete(target);
        this.slots.get(target)?.(false);
      }
    }
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const middle = this.scroller.current!.getBoundingClientRect();
    const from = (element: Element) => Math.abs(element.getBoundingClientRect().top - middle.top);
    const next = [...this.coming].sort((one, other) => from(one) - from(other)).slice(0, MOST_A_FRAME);
    for (const element of next) {
      this.coming.delete(element);
      this.slots.get(element)?.(true);
    }
    if (this.coming.size > 0) {
      this.frame = requestAnimationFrame(() => this.draw());
    }
  }
}
