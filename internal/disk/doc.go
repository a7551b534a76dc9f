// Package disk is the file system as sources and states use it, with a seam at which tests make it fail (package faulty), and the one way
// to read a file that a stranger may have put there. Any room that reads or writes such files may import it; it imports nothing of ours and
// knows nothing of their content. watch reports changes.
package disk
