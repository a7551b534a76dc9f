// Package printable makes text that strangers chose fit to be logged, printed and kept: short, valid UTF-8, and without
// characters that move a cursor, start a line or turn the direction of writing. Any room may import it; it imports
// nothing of ours and knows nothing of what the text means.
package printable
