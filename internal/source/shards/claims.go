package shards

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fairway/internal/source"
)

// shard is what one source handed in under one key.
type shard struct {
	of   *member
	key  source.ShardKey
	run  int // the run of the source that named the shard last
	rows int // that it has, also those that do not count
	// changed is when a row of it that counts came, or became different.
	changed time.Time
}

func (s *shard) count(n int) {
	s.rows += n
	s.of.rows += n
}

// claim is one version of a row.
type claim[V any] struct {
	shard *shard
	at    int // place in the shard
	row   V
}

func compareClaim[V any](a, b claim[V]) int {
	return cmp.Or(cmp.Compare(a.shard.of.rank, b.shard.of.rank), cmp.Compare(a.shard.of.name, b.shard.of.name),
		source.CompareShardKey(a.shard.key, b.shard.key), cmp.Compare(a.at, b.at))
}

// claims are the rows of one kind that shards have. Callers hold Set.mu.
type claims[K comparable, V any] struct {
	key     func(V) K
	compare func(a, b K) int
	same    func(a, b V) bool
	note    func(K, []claim[V]) // called with the claims of a row when one may have changed; nil: no call

	rows map[K][]claim[V] // the first counts; never empty
	in   map[*shard]map[K]struct{}

	touched []K          // since the last flush, in order
	before  map[K]was[V] // what counted of these at the last flush
}

type was[V any] struct {
	row V
	had bool
}

func newClaims[K comparable, V any](key func(V) K, compare func(a, b K) int, same func(a, b V) bool) claims[K, V] {
	return claims[K, V]{
		key: key, compare: compare, same: same, rows: map[K][]claim[V]{}, in: map[*shard]map[K]struct{}{}, before: map[K]was[V]{},
	}
}

// touch remembers what counted of a row before it changes.
func (c *claims[K, V]) touch(k K) {
	if _, already := c.before[k]; already {
		return
	}
	c.touched = append(c.touched, k)
	if list := c.rows[k]; len(list) > 0 {
		c.before[k] = was[V]{list[0].row, true}
	} else {
		c.before[k] = was[V]{}
	}
}

// set sets the rows of a shard: these alone, or these beside others.
func (c *claims[K, V]) set(s *shard, rows []V, whole bool) {
	if whole {
		c.drop(s)
	} else {
		for _, v := range rows {
			c.remove(s, c.key(v))
		}
	}
	for i, v := range rows {
		if !whole {
			i = 0
		}
		c.add(s, i, v)
	}
}

// add gives a shard one more version of a row.
func (c *claims[K, V]) add(s *shard, at int, v V) {
	k, one := c.key(v), claim[V]{s, at, v}
	c.touch(k)
	list := c.rows[k]
	i, _ := slices.BinarySearchFunc(list, one, compareClaim)
	c.rows[k] = slices.Insert(list, i, one)
	if c.in[s] == nil {
		c.in[s] = map[K]struct{}{}
	}
	c.in[s][k] = struct{}{}
	s.count(1)
}

// remove takes the versions of a row from a shard.
func (c *claims[K, V]) remove(s *shard, k K) {
	if _, has := c.in[s][k]; !has {
		return
	}
	c.touch(k)
	if delete(c.in[s], k); len(c.in[s]) == 0 {
		delete(c.in, s)
	}
	list := c.rows[k]
	had := len(list)
	rest := slices.DeleteFunc(list, func(o claim[V]) bool { return o.shard == s })
	s.count(len(rest) - had)
	if c.rows[k] = rest; len(rest) == 0 {
		delete(c.rows, k)
	}
}

// drop takes all rows from a shard.
func (c *claims[K, V]) drop(s *shard) {
	for _, k := range slices.SortedFunc(maps.Keys(c.in[s]), c.compare) {
		c.remove(s, k)
	}
}

// of lists the rows of a shard, in no order.
func (c *claims[K, V]) of(s *shard) []V {
	out := make([]V, 0, len(c.in[s]))
	for k := range c.in[s] {
		for _, one := range c.rows[k] {
			if one.shard == s {
				out = append(out, one.row)
			}
		}
	}
	return out
}

// list appends the rows of a shard, in no order, and calls next for each. It stops, and returns false, when next does.
func (c *claims[K, V]) list(s *shard, to *[]V, next func() bool) bool {
	for k := range c.in[s] {
		for _, one := range c.rows[k] {
			if one.shard == s {
				*to = append(*to, one.row)
			}
		}
		if !next() {
			return false
		}
	}
	return true
}

// sort orders rows by key. Versions of one row stay in their order. It needs no lock.
func (c *claims[K, V]) sort(rows []V) {
	slices.SortStableFunc(rows, func(a, b V) int { return c.compare(c.key(a), c.key(b)) })
}

// flush returns the changes since the last flush in the rows that count.
func (c *claims[K, V]) flush(now time.Time) (set []V, gone []K) {
	for _, k := range c.touched {
		old, list := c.before[k], c.rows[k]
		switch {
		case len(list) == 0 && old.had:
			gone = append(gone, k)
		case len(list) > 0 && !(old.had && c.same(old.row, list[0].row)):
			set = append(set, list[0].row)
			list[0].shard.changed = now
		}
		if c.note != nil {
			c.note(k, list)
		}
	}
	c.touched, c.before = nil, map[K]was[V]{} // a first sync's room is given back
	return set, gone
}
