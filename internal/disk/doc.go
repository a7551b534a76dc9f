// Package disk is what sources and states ask the file system, behind a seam where tests make it fail (package faulty),
// and the one way to read a file that a stranger may have put there. Any room that reads or writes such files may
// import it; it imports nothing of ours and knows nothing of what is in them. watch tells of changes.
package disk
