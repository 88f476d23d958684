/**
 * Puts the keyboard into the question when a person wants it there, however early that is.
 *
 * A page that was just opened has no question yet, and opens its launcher or its notebooks later than it says, each of
 * which takes the keyboard. So it is held until the person does something else, and taken back before a key can go astray.
 */

/** Milliseconds after which what takes the keyboard is no longer taken for a part of JupyterLab's start. */
const PATIENCE = 30_000;
/** How often the keyboard is taken back: a widget that wants it more gets it. */
const MOST = 3;
const ACTS = ['pointerdown', 'keydown'];

/** Holds the keyboard for one element. */
export class Hold {
  private frame = 0;
  private left = 0;
  private until = 0;

  /** @param find The element, once it is there. */
  constructor(private readonly find: () => HTMLElement | null) {}

  /** Give it the keyboard. */
  begin(): void {
    this.end();
    this.left = MOST;
    this.until = performance.now() + PATIENCE;
    ACTS.forEach(act => window.addEventListener(act, this.acted, true));
    window.addEventListener('focusin', this.moved, true);
    this.soon();
  }

  /** Let go of it. */
  end(): void {
    cancelAnimationFrame(this.frame);
    ACTS.forEach(act => window.removeEventListener(act, this.acted, true));
    window.removeEventListener('focusin', this.moved, true);
  }

  /** Once there is something to see: what is hidden or not drawn yet takes no keyboard. */
  private soon(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const element = this.find();
      element?.focus();
      if (performance.now() > this.until) {
        this.end();
      } else if (!element || document.activeElement !== element) {
        this.soon();
      }
    });
  }

  private readonly moved = (event: Event): void => {
    const target = event.target as Element;
    if (target === this.find()) {
      return;
    }
    // A dialog, or another field of the panel, has it for a reason.
    if (target.closest('.jp-MainAreaWidget') && this.left-- > 0) {
      this.find()?.focus();
      this.soon();
    } else {
      this.end();
    }
  };

  private readonly acted = (event: Event): void => {
    const { key = 'Tab', ctrlKey, metaKey, altKey } = event as KeyboardEvent;
    if (key === 'Tab' || ctrlKey || metaKey || altKey) {
      this.end();
    }
  };
}
