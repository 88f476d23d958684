/** SHA-256, as nbagent writes it into notebooks. The browser's own is missing on pages that came without TLS. */
import { sha256 as digest } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/** The hash of a text in UTF-8, in hexadecimal digits. */
export function sha256(text: string): string {
  return bytesToHex(digest(utf8ToBytes(text)));
}
