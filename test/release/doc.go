// Package release tests images and packages. Images are unpacked and run without a container engine; dpkg installs packages over a copy of
// this machine's files, and removes them. Two builds must be equal.
package release
