// Package file is the source of objects in files: directory trees of YAML and JSON, the mesh configuration and the mesh
// networks.
//
// It is live, and true to what a writer means:
//
//   - a file that is renamed into place, and a symlink that is swapped (ConfigMap mounts), is complete: it is applied at once;
//   - a file that is written in place is applied when its writer has closed it and left it alone for Options.Quiet;
//   - a file that goes may come back within Quiet: editors rename the old one away before they write the new one.
//
// The objects of a file are removed when the file system says that the file does not exist, below a folder that exists. If a
// folder is missing, or anything cannot be read, its objects stay, that is a problem, and it is tried again within seconds. A
// folder that links lead to is read once. Large files are read beside the loop, so that they do not delay the others.
//
// One bad document hurts only itself: the good version that it replaces stays in force, and a problem names file, line and
// field. If two files hold the same object, the first by path counts; when it goes, the other takes over.
//
// One goroutine, in Run, owns all state; others only read files for it. The package must not know what an object means
// (config) nor what becomes of it (compile).
package file
