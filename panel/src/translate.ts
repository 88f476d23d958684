/** Sentences in the person's language, also where JupyterLab is not: in what is pure, and in tests. */
import type { TranslationBundle } from '@jupyterlab/translation';

/** Translates a sentence, in which %1 stands for the first value. */
export type Trans = Pick<TranslationBundle, '__'>;

export const untranslated: Trans = {
  __: (sentence, ...values) => sentence.replace(/%(\d)/g, (_, number) => String(values[Number(number) - 1]))
};
