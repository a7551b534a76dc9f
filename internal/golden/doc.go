// Package golden compares results of tests with files that hold what was right before: whole files, or files in txtar archives. With
// -update a test writes its results there; the diff is then to be read before it is committed. Only tests import it.
package golden
