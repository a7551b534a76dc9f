package cells

import "fmt"

// Ref names a row as it prints.
type Ref struct {
	Table string `json:"table"`
	Key   string `json:"key"`
}

func (r Ref) String() string { return r.Table + " " + r.Key }

// Explanation describes which rows a row was made from and which rows depend on it.
type Explanation struct {
	Ref
	// Value is the row as it prints, a column each. It is empty if the key has no row.
	Value []string `json:"value,omitempty"`
	// Reads are the rows that were read to make it, its source row first. Absent are the reads that found nothing. A
	// member of a group, and each side of a join, counts as read.
	Reads  []Ref `json:"reads,omitempty"`
	Absent []Ref `json:"absent,omitempty"`
	// Readers are the source rows of the derivations that read it, each with the name of the derived table. They are computed again when it
	// changes.
	Readers []Ref `json:"readers,omitempty"`
	// More counts reads and readers that are left out.
	More int `json:"more,omitempty"`
}

// Divergence is a row of a derivation that differs from the result of its reads.
type Divergence struct {
	Table string // the derived table
	Key   string // of the source row, printed
	Have  string // the part that differs, as it is
	Want  string // and as it comes out when it is computed again
}

func (d Divergence) String() string {
	return fmt.Sprintf("%s from %s: has %s, and comes out as %s", d.Table, d.Key, d.Have, d.Want)
}
