// Package limit limits the rate of each stranger, in bounded memory. Any room may import it; it imports nothing of ours.
package limit
