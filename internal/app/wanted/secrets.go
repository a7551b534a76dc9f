package wanted

import (
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/table"
)

// Reader reads some objects only if they are wanted.
type Reader interface {
	// Want adds and removes wanted objects. It does not block.
	Want(more, less []config.Key)
}

// Secrets passes on the turn's changes of wanted Secrets and ConfigMaps.
func Secrets(of *table.Table[secret.Key, struct{}], r Reader) {
	var more, less []config.Key
	for c := range table.Changes(of) {
		k := c.Key.Object()
		if c.Has {
			more = append(more, k)
		} else {
			less = append(less, k)
		}
	}
	r.Want(more, less)
}
