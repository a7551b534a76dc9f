// Package printable makes strangers' text safe to log, print and keep: short, valid UTF-8, and without characters that move a cursor, start
// a line or turn the direction of writing. Any room may import it; it imports nothing of ours and knows nothing of the text's meaning.
package printable
