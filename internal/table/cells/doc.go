// Package cells holds the rows of tables without their types, and which rows were read to make others.
//
// The engine has no type parameters: with them, Go would compile it again for each table of the program. It works on cells (Cell) and on
// pointers to values (Value), and calls the KeyKind and ValueKind of a table for operations that depend on types. Package table, the typed
// shell, casts cells to rows with KeyOf and ValueOf. That is safe because NewRow alone makes cells, with the types of the table's
// declaration.
//
//	Table    the cells of one table: its rows, the absent keys that were read, the changes of a turn
//	Set      a hash table of cells
//	Maker    the computation of one source row: its reads (Dep) and the readers of a cell (Edge) know each other's place
//	Record   the reads of a run; Reads withdraws those of the run before
//	Queue    the makers that must run in a turn, and Heights the tables that have some
//	Tree     the rows of a group, shared between versions; Rows is its typed form
//	Terms    a user's function that names keys of another table
//	Counts   how often rows name a key
//	Listing  a table in print; Explanation and Divergence are rows in print, with their reads
//
// Everything here is written by one goroutine, the one with the turn, except that runs of a derivation may call Look at once. The package
// must not know stores, turns or kinds of tables. Start at Cell and Table.
package cells
