// Package watch tells of changes in the file system, in one of two ways.
//
//   - Watcher tells what happened to the names in folders, as it happens: for whoever reads trees of files and has to act
//     on one of them.
//   - Follow tells that the content of a few files has changed, and has stopped changing: for whoever reads them all
//     again. It looks at content, so it misses nothing; the system's events only bring the looks forward.
//
// On Linux events are inotify's. They are not to be had everywhere: a user's instances and watches are limited, and file
// systems over a network tell of no change that another machine makes. So a Watcher's Add may fail, and whoever uses it
// must look from time to time; Follow does so by itself.
//
// It must not know what the files mean.
package watch
