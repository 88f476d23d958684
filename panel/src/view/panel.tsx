import { ReactWidget } from '@jupyterlab/ui-components';
import type { Drag } from '@lumino/dragdrop';
import type { Message } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';
import * as React from 'react';

import { Composer } from './composer';
import { ConversationView } from './conversation';
import { Env, EnvContext, useChanged, useEnv } from './env';
import { FocusKeeper } from './focus';
import { Header } from './header';
import { Hold } from './hold';
import { agentIcon } from './icons';
import { KernelChoice } from './kernel';
import { Failure, Progress } from './pending';
import { Sessions } from './sessions';
import { Welcome } from './welcome';

/** How JupyterLab's list of files names what is dragged. */
const PATHS = 'application/x-jupyter-icontents';
/** Pixels at the right of the page that JupyterLab's messages leave free: they never lie over what waits for an answer. */
const ROOM = '--nba-room';
const DRAGS = ['lm-dragenter', 'lm-dragover', 'lm-dragleave', 'lm-drop', 'dragover', 'dragleave', 'drop'];

/** The side bar's widget. */
export class Panel extends ReactWidget {
  private readonly input = React.createRef<HTMLTextAreaElement>();
  private readonly hold = new Hold(() => this.input.current);
  private readonly keeper = new FocusKeeper(this.node, () => this.input.current);

  constructor(private readonly env: Env) {
    super();
    const { trans } = env;
    this.id = 'nbagent-panel';
    this.addClass('nba-Panel');
    this.title.icon = agentIcon;
    this.title.caption = trans.__('nbagent: ask about your data');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('nbagent'));
    this.node.dataset.drop = trans.__('Drop the files here');
  }

  /** Put the cursor into the question. */
  focus(): void {
    this.hold.begin();
  }

  protected override render(): JSX.Element {
    return (
      <EnvContext.Provider value={this.env}>
        <App input={this.input} />
      </EnvContext.Provider>
    );
  }

  /** Files that are dragged from JupyterLab's own list of files, or from the desktop. */
  handleEvent(event: Event): void {
    const { type, relatedTarget, dataTransfer } = event as DragEvent;
    const drag = event as Drag.Event;
    const isListed = drag.mimeData?.hasData(PATHS) ?? false;
    if (!isListed && !dataTransfer?.types.includes('Files')) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const leaves = type.endsWith('leave') && !this.node.contains(relatedTarget as Node | null);
    this.toggleClass('nba-mod-over', !leaves && !type.endsWith('drop'));
    if (isListed) {
      drag.dropAction = drag.proposedAction;
    }
    if (type === 'lm-drop') {
      void this.env.attach(drag.mimeData.getData(PATHS) as string[]);
    } else if (type === 'drop') {
      this.env.assistant.attachments.addFrom(dataTransfer!);
      this.focus();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.keeper.begin();
    this.makeRoom();
    for (const type of DRAGS) {
      this.node.addEventListener(type, this);
    }
  }

  protected override onResize(message: Widget.ResizeMessage): void {
    super.onResize(message);
    this.makeRoom();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.makeRoom();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.makeRoom();
  }

  protected override onBeforeDetach(message: Message): void {
    document.body.style.removeProperty(ROOM);
    this.hold.end();
    this.keeper.end();
    for (const type of DRAGS) {
      this.node.removeEventListener(type, this);
    }
    super.onBeforeDetach(message);
  }

  private makeRoom(): void {
    const { left, right } = this.node.getBoundingClientRect();
    const isAtRight = this.isVisible && left + right > window.innerWidth;
    document.body.style.setProperty(ROOM, isAtRight ? `${window.innerWidth - left}px` : '0px');
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.focus();
  }
}

function App({ input }: { input: React.RefObject<HTMLTextAreaElement> }): JSX.Element {
  const { assistant } = useEnv();
  const [listed, list] = React.useState(false);
  useChanged(assistant.changed);
  const { session, pending } = assistant;
  return (
    <>
      <Header listed={listed} list={list} />
      {listed ? (
        <Sessions done={() => list(false)} />
      ) : (
        <>
          {session ? (
            <ConversationView key={session.id} conversation={session.conversation} />
          ) : pending ? (
            <div className="nba-Middle" />
          ) : (
            <Welcome ask={() => input.current?.focus()} />
          )}
          <Progress />
        </>
      )}
      <Failure />
      <KernelChoice />
      <Composer input={input} />
    </>
  );
}
