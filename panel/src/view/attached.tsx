import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

/** A Lumino widget within React; it is disposed of with its place. */
export function Attached({ widget, className }: { widget: Widget; className?: string }): JSX.Element {
  const place = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => {
    const host = place.current!;
    MessageLoop.sendMessage(widget, Widget.Msg.BeforeAttach);
    host.appendChild(widget.node);
    MessageLoop.sendMessage(widget, Widget.Msg.AfterAttach);
    return () => {
      if (widget.node.parentElement === host) {
        MessageLoop.sendMessage(widget, Widget.Msg.BeforeDetach);
        host.removeChild(widget.node);
        MessageLoop.sendMessage(widget, Widget.Msg.AfterDetach);
      }
    };
  }, [widget]);
  return <div ref={place} className={className} />;
}
