import * as React from 'react';

/** Pixels from the end within which the view follows what comes. */
const NEAR_END = 48;

export interface Following {
  /** Whether the person has scrolled away from the end. */
  readonly away: boolean;
  readonly toEnd: () => void;
  /** To be called when the place was scrolled. */
  readonly scrolled: () => void;
}

/**
 * Keep the end of something that grows in sight, unless the person has scrolled away from it.
 *
 * @param place What scrolls.
 * @param inner What grows in it.
 * @param wanted Whether the end is followed at all; what was followed once still is.
 */
export function useFollow(
  place: React.RefObject<HTMLElement>,
  inner: React.RefObject<HTMLElement>,
  wanted = true
): Following {
  const follows = React.useRef(true);
  const last = React.useRef(0);
  const begun = React.useRef(false);
  begun.current ||= wanted;
  const [away, setAway] = React.useState(false);
  const toEnd = React.useCallback(() => {
    const scroller = place.current!;
    scroller.scrollTop = scroller.scrollHeight;
    // What became shorter has moved the end up, which is heard of when it may have grown again.
    last.current = scroller.scrollTop;
  }, [place]);
  React.useEffect(() => {
    const observer = new ResizeObserver(() => begun.current && follows.current && toEnd());
    observer.observe(inner.current!);
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, [place, inner, toEnd]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current!;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END) {
      follows.current = true;
    } else if (scrollTop < last.current) {
      // What grows moves the end away; only a person moves up.
      follows.current = false;
    }
    last.current = scrollTop;
    setAway(!follows.current);
  };
  return { away, toEnd, scrolled };
}
