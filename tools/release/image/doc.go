// Package image makes the images of the three programs, without a container engine.
//
// Build returns one image for one architecture, out of programs that were built before: it compiles nothing. Write puts images where
// container engines and registries can take them from. All bytes follow from the files that are given: two builds are equal.
package image
