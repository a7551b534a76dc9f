// Package limit holds strangers to a rate each, in bounded memory. Any room may import it; it imports nothing of ours.
package limit
