/** Finds the keyboard another place when what had it goes or is disabled, as a button does that was answered with. */
export class FocusKeeper {
  private last: HTMLElement | null = null;
  /** What is around it and can have the keyboard, from the inside. */
  private around: HTMLElement[] = [];
  private readonly observer = new MutationObserver(() => this.look());

  /**
   * @param root Where the keyboard is kept.
   * @param find What gets it if nothing around is left.
   */
  constructor(
    private readonly root: HTMLElement,
    private readonly find: () => HTMLElement | null
  ) {}

  begin(): void {
    this.root.addEventListener('focusin', this.noted);
    this.observer.observe(this.root, { childList: true, subtree: true, attributes: true, attributeFilter: ['disabled'] });
  }

  end(): void {
    this.root.removeEventListener('focusin', this.noted);
    this.observer.disconnect();
  }

  private readonly noted = ({ target }: FocusEvent): void => {
    this.last = target as HTMLElement;
    this.around = [];
    for (let each = this.last.parentElement; each && each !== this.root; each = each.parentElement) {
      if (each.hasAttribute('tabindex')) {
        this.around.push(each);
      }
    }
  };

  private look(): void {
    const { last } = this;
    if (!last || (last.isConnected && !last.matches(':disabled'))) {
      return;
    }
    this.last = null;
    if (document.activeElement === document.body || document.activeElement === last) {
      (this.around.find(each => each.isConnected) ?? this.find())?.focus({ preventScroll: true });
    }
  }
}
