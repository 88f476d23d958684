import { LabIcon } from '@jupyterlab/ui-components';

/** A cell with a spark: nbagent in side bars, in the launcher and in menus. */
export const agentIcon = new LabIcon({
  name: 'nbagent:agent',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M4 4h9v2H5v12h14v-5h2v6a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1z"/>
    <path d="M7.2 9.2 8.6 7.8 12.8 12l-4.2 4.2-1.4-1.4L10 12z"/>
    <path d="M18.5 1.5l1.3 3.2L23 6l-3.2 1.3-1.3 3.2-1.3-3.2L14 6l3.2-1.3z"/>
  </g></svg>`
});

/** An arrow that goes up: ask. */
export const sendIcon = new LabIcon({
  name: 'nbagent:send',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <path fill="currentColor" d="M11 20V7.8l-5.6 5.6L4 12l8-8 8 8-1.4 1.4L13 7.8V20z"/></svg>`
});

/** A shield: what isolates the code. */
export const shieldIcon = new LabIcon({
  name: 'nbagent:shield',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="M12 2 4 5v6c0 5 3.4 9.7 8 11 4.6-1.300 8-6 8-11V5zm0 2.100 6 2.300V11c0 3.900-2.500 7.600-6 8.900-3.500-1.300-6-5-6-8.900V6.400z"/></svg>`
});
