import * as React from 'react';

import { useChanged, useEnv } from './env';

/** Where the code of a new session runs, and what isolates it there; nothing if there is no choice. */
export function KernelChoice(): JSX.Element | null {
  const { assistant, trans } = useEnv();
  const { documents } = assistant;
  useChanged(documents?.changed ?? assistant.changed);
  const kernel = documents?.kernel;
  if (!documents || assistant.session || !(kernel || documents.isShared)) {
    return null;
  }
  const { isShared } = documents;
  return (
    <div className="nba-Kernel">
      <label>
        <span>{trans.__('The code runs in')}</span>{' '}
        <select value={isShared ? 'kernel' : 'own'} onChange={event => documents.share(event.target.value === 'kernel')}>
          <option value="own">{trans.__('a sandbox of its own')}</option>
          <option value="kernel">{kernel ? trans.__('the kernel of %1', kernel.notebook) : trans.__('the kernel of a notebook')}</option>
        </select>
      </label>
      {isShared && (
        <p className={`nba-Notice nba-mod-${kernel?.isSandboxed ? 'told' : 'warning'}`} role="status">
          {kernel === null
            ? trans.__('No notebook with a kernel is in front.')
            : kernel?.isSandboxed
              ? trans.__('In its sandbox, with your variables.')
              : trans.__('Not isolated: this kernel runs as you, with your variables, your files and your network.')}
        </p>
      )}
    </div>
  );
}
