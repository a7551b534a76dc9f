package kept

import (
	"fairway/internal/config"
	"fairway/internal/source"
)

// Part is a shard, or some of its rows, in the form of JSON that Encode writes. Other files than Encode's contain it.
type Part struct{ shard }

// MakePart returns rows of a shard as a Part. Secrets, and ConfigMaps with certificates, are left out.
func MakePart(key source.ShardKey, rows source.Rows) (Part, error) {
	out := Part{shard{
		Key: key, Services: rows.Services, Slices: rows.Slices, Workloads: rows.Workloads, Machines: rows.Machines,
		Namespaces: rows.Namespaces,
	}}
	for _, o := range rows.Objects {
		row, is, err := written(o)
		if err != nil {
			return out, err
		}
		if is {
			out.Objects = append(out.Objects, row)
		}
	}
	return out, nil
}

// Rows checks the rows, which may be of any registry, and returns them. Objects that are not valid any more are left out.
func (p Part) Rows(rules *config.Decoder) (key source.ShardKey, rows source.Rows, err error) {
	if err = p.check(""); err != nil {
		return p.Key, rows, err
	}
	rows, err = p.rows(rules)
	return p.Key, rows, err
}
