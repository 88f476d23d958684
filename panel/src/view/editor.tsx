import { CodeEditorWrapper } from '@jupyterlab/codeeditor';
import { CodeEditor } from '@jupyterlab/codeeditor';
import * as React from 'react';

import { Attached } from './attached';
import { useEnv } from './env';

/** JupyterLab's own editor, for code that a person changes before it runs. */
export function Editor(props: { text: string; label: string; onChange: (text: string) => void }): JSX.Element {
  const { editors } = useEnv();
  const [wrapper, setWrapper] = React.useState<CodeEditorWrapper | null>(null);
  const change = React.useRef(props.onChange);
  change.current = props.onChange;
  React.useEffect(() => {
    const model = new CodeEditor.Model({ mimeType: 'text/x-ipython' });
    model.sharedModel.setSource(props.text);
    model.sharedModel.changed.connect(() => change.current(model.sharedModel.getSource()));
    const made = new CodeEditorWrapper({
      model,
      factory: options => editors.factoryService.newInlineEditor(options),
      editorOptions: { config: { lineWrap: true } }
    });
    made.node.querySelector('[contenteditable]')?.setAttribute('aria-label', props.label);
    setWrapper(made);
    return () => {
      made.dispose();
      model.dispose();
    };
  }, [editors]);
  // Whoever chose to edit types at once.
  React.useEffect(() => wrapper?.editor.focus(), [wrapper]);
  return <>{wrapper && <Attached widget={wrapper} className="nba-Editor" />}</>;
}
