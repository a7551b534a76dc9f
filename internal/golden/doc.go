// Package golden compares results of tests with files of earlier, correct results: whole files, or files in txtar archives. With -update a
// test writes its results there; read the diff before you commit it. Only tests import it.
package golden
