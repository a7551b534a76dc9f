// Package watch reports changes in the file system, in one of two ways.
//
//   - Watcher reports each event of the names in folders, as it happens: for callers that read trees of files and have to act on one of
//     them.
//   - Follow reports that the content of a few files has changed, and has stopped changing: for callers that read them all again. It
//     compares content, so it misses nothing; the system's events only bring the comparisons forward.
//
// On Linux events are inotify's. They are not always available: a user's instances and watches are limited, and network file systems do not
// report changes that another machine makes. So a Watcher's Add may fail, and its caller must look at the files from time to time; Follow
// does so by itself.
//
// It must not know what the files mean.
package watch
