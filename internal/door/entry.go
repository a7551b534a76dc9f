package door

import (
	"container/list"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// item is a version of an object or of a registry's service; the zero item is its absence. Its pointers lead to the shared immutable value,
// not to a copy.
type item struct {
	object  *config.Object
	service *mesh.Service
}

func (i item) absent() bool { return i == item{} }

func (i item) ref() mesh.ObjectRef {
	switch {
	case i.object != nil:
		return i.object.Ref
	case i.service != nil:
		return i.service.Origin
	}
	return mesh.ObjectRef{}
}

// entry is one object or service: the version that next has, and the version that it should have.
type entry struct {
	key     config.Key       // of a service: kind "Service", its namespace and host
	service *mesh.ServiceKey // nil for an object

	applied item     // the version that next has
	want    item     // the sources' last version; differs from applied only while it waits
	waiting *waiting // nil unless want waits
}

// waiting holds why and since when an entry's want is not applied.
type waiting struct {
	since time.Time
	place *list.Element // in Door.queue
	needs []name        // under which Door.needing has the entry
	gives []name        // under which Door.giving has it
}

func compareEntry(a, b *entry) int {
	if c := config.CompareKey(a.key, b.key); c != 0 || a.service == nil || b.service == nil {
		return c
	}
	return mesh.CompareServiceKey(*a.service, *b.service)
}
