package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/config"
	"fairway/internal/printable"
)

// Item is an object as it is stored.
type Item struct {
	Key      config.Key
	Revision int64 // the revision that wrote it last: its version
	Text     []byte
}

// Store reads and writes objects of one mesh. It is made with Open, and closed.
type Store struct {
	reach   Reach
	layout  Layout
	decoder *config.Decoder
	client  *clientv3.Client
}

// Open connects. The decoder validates objects before they are written.
func Open(ctx context.Context, r Reach, l Layout, d *config.Decoder) (*Store, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	client, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &Store{reach: r, layout: l, decoder: d, client: client}, nil
}

// Close ends the connection.
func (s *Store) Close() { _ = s.client.Close() } // there is nothing to be done about it

// Get reads one object; false: there is none.
func (s *Store) Get(ctx context.Context, k config.Key) (Item, bool, error) {
	items, err := s.Read(ctx, []config.Key{k})
	if err != nil || items[0].Revision == 0 {
		return Item{}, false, err
	}
	return items[0], true, nil
}

// Read reads objects, in the order of their keys; an object that does not exist has revision 0. Up to MaxChanges are read at one
// revision.
func (s *Store) Read(ctx context.Context, keys []config.Key) ([]Item, error) {
	out := make([]Item, 0, len(keys))
	for part := range slices.Chunk(keys, MaxChanges) {
		var ask []clientv3.Op
		for _, k := range part {
			ask = append(ask, clientv3.OpGet(s.layout.Key(k)))
		}
		answer, err := s.txn(ctx, nil, ask, nil)
		if err != nil {
			return nil, s.explain(err, s.layout.Root())
		}
		for i, k := range part {
			item := Item{Key: k}
			if i < len(answer.Responses) {
				if kvs := answer.Responses[i].GetResponseRange().GetKvs(); len(kvs) == 1 {
					item.Revision, item.Text = kvs[0].GetModRevision(), kvs[0].GetValue()
				}
			}
			out = append(out, item)
		}
	}
	return out, nil
}

func (s *Store) txn(ctx context.Context, compare []clientv3.Cmp, do, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, end := context.WithTimeout(ctx, Within)
	defer end()
	return s.client.Txn(ctx).If(compare...).Then(do...).Else(otherwise...).Commit()
}

// mostListed is how many objects List returns at most.
const mostListed = 200_000

// List reads the objects of some kinds, in one namespace or, if that is empty, in all: by kind, namespace and name, as they are at
// one revision. Values that are not objects are left out.
func (s *Store) List(ctx context.Context, kinds []config.Kind, namespace string) ([]Item, error) {
	var out []Item
	var revision int64
	for _, kind := range kinds {
		below := s.layout.Below(kind, namespace)
		if Single(kind) {
			below = strings.TrimSuffix(below, "/")
		}
		pages := Pages{Client: s.client, Root: below, Revision: revision}
		for !pages.Done() {
			kvs, err := pages.Next(ctx)
			if err != nil {
				return nil, s.explain(err, below)
			}
			for _, kv := range kvs {
				if k, err := s.layout.Object(string(kv.Key)); err == nil && k.Kind == kind {
					out = append(out, Item{k, kv.ModRevision, kv.Value})
				}
			}
			if len(out) > mostListed {
				return nil, fmt.Errorf("%s holds more than %d objects: ask for a kind or a namespace", s.reach.Name(), mostListed)
			}
		}
		revision = pages.Revision
	}
	slices.SortFunc(out, func(a, b Item) int { return config.CompareKey(a.Key, b.Key) })
	return out, nil
}

// Change is the change of one object.
type Change struct {
	Key  config.Key
	Text []byte // as Stored makes it; nil: the object goes
	// Was is the version that the change was made of: another one is a Conflict. 0: there is none yet.
	Was int64
}

// Bounds of one transaction; etcd's own are 128 operations and 1.5 MiB by default.
const (
	MaxChanges = 60 // each compares, and either writes or reads
	MaxBytes   = 1 << 20
)

// Conflict says that an object is not in the version that a change was made of.
type Conflict struct {
	Key     config.Key
	Was, Is int64 // 0: it is not there
}

func (c Conflict) Error() string {
	switch {
	case c.Is == 0:
		return fmt.Sprintf("%s is not there any more: it was deleted after resourceVersion %d", c.Key, c.Was)
	case c.Was == 0:
		return fmt.Sprintf("%s is there already, in resourceVersion %d", c.Key, c.Is)
	}
	return fmt.Sprintf("%s was changed by somebody else: it is in resourceVersion %d, and the change was made of %d", c.Key, c.Is, c.Was)
}

// Invalid says that an object is not stored because no control plane would carry it out.
type Invalid struct {
	Key      config.Key
	Problems []Problem
}

func (i Invalid) Error() string {
	for _, p := range i.Problems {
		if p.Code != "" {
			return p.String()
		}
	}
	return i.Key.String() + " is not valid"
}

// ErrLarge says that an object is larger than the store takes.
var ErrLarge = errors.New("it is larger than etcd takes, which is 1.5 MiB unless its --max-request-bytes says otherwise")

// Judge returns the problems of an object's text. If one of them is an Error, the object is not written.
func (s *Store) Judge(k config.Key, text []byte) []Problem {
	_, problems := Decode(s.decoder, k, "", text)
	return problems
}

// Commit makes all changes at once, or none: at most MaxChanges. It returns the version of all objects after the changes. The error
// is Invalid if an object is not valid, and joins a Conflict for each object with another version than Was.
func (s *Store) Commit(ctx context.Context, changes []Change) (int64, error) {
	var compare []clientv3.Cmp
	var do, look []clientv3.Op
	for _, c := range changes {
		if c.Text != nil {
			if problems := s.Judge(c.Key, c.Text); failed(problems) {
				return 0, Invalid{c.Key, problems}
			}
		}
		at := s.layout.Key(c.Key)
		compare = append(compare, clientv3.Compare(clientv3.ModRevision(at), "=", c.Was))
		look = append(look, clientv3.OpGet(at, clientv3.WithKeysOnly()))
		if c.Text == nil {
			do = append(do, clientv3.OpDelete(at))
		} else {
			do = append(do, clientv3.OpPut(at, string(c.Text)))
		}
	}
	answer, err := s.txn(ctx, compare, do, look)
	switch {
	case errors.Is(err, rpctypes.ErrRequestTooLarge), status.Code(err) == codes.ResourceExhausted && len(changes) == 1:
		return 0, fmt.Errorf("%s: %w", changes[0].Key, ErrLarge)
	case err != nil:
		return 0, s.explainWrite(err, changes)
	case answer.Succeeded:
		return answer.Header.Revision, nil
	}
	return 0, conflicts(changes, answer.Responses)
}

// conflicts are those of a transaction that was not carried out.
func conflicts(changes []Change, answers []*etcdserverpb.ResponseOp) error {
	var errs []error
	for i, c := range changes {
		var is int64
		if i < len(answers) {
			if kvs := answers[i].GetResponseRange().GetKvs(); len(kvs) == 1 {
				is = kvs[0].GetModRevision()
			}
		}
		if is != c.Was {
			errs = append(errs, Conflict{c.Key, c.Was, is})
		}
	}
	return errors.Join(errs...)
}

// explainWrite says of a write that failed whether it may have been carried out.
func (s *Store) explainWrite(err error, changes []Change) error {
	at := s.layout.Root()
	if len(changes) == 1 {
		at = s.layout.Key(changes[0].Key)
	}
	if errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) && s.reach.Username != "" {
		return fmt.Errorf("%s: user %s may not write %s: grant a role of the user's: "+
			"etcdctl role grant-permission ROLE readwrite --prefix=true %s",
			s.reach.Name(), s.reach.Username, at, s.layout.Root())
	}
	told := s.explain(err, at)
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w; whether it was written is not known: look with pilotctl get", told)
	}
	return told
}

func (s *Store) explain(err error, at string) error {
	return s.reach.Explain(err, printable.Text(at, printable.Long))
}

// page is how many objects are asked for at once at first.
const page = 500

// pageWithin is how long one page may take: it may be many megabytes.
const pageWithin = 30 * time.Second

// Pages reads all keys that begin with Root, a page at a time and all of one revision. If a page is larger than the client accepts,
// it asks for smaller ones.
type Pages struct {
	Client   *clientv3.Client
	Root     string
	Revision int64 // 0: the newest there is when the first page is read, which it then is
	Cluster  uint64
	Left     int64 // how many keys come after the page that was read last

	next  string // key that the next page begins with; empty: Root
	limit int64
	done  bool
}

// Done reports whether all was read.
func (p *Pages) Done() bool { return p.done }

// Next reads a page.
func (p *Pages) Next(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	if p.next == "" {
		p.next, p.limit = p.Root, page
	}
	ctx, end := context.WithTimeout(ctx, pageWithin)
	defer end()
	for {
		answer, err := p.Client.Get(ctx, p.next, clientv3.WithRange(clientv3.GetPrefixRangeEnd(p.Root)),
			clientv3.WithLimit(p.limit), clientv3.WithRev(p.Revision))
		switch {
		case status.Code(err) == codes.ResourceExhausted && p.limit > 1:
			p.limit = max(p.limit/8, 1)
			continue
		case err != nil:
			return nil, err
		}
		if p.Cluster == 0 {
			p.Cluster = answer.Header.GetClusterId()
		}
		if p.Revision == 0 {
			p.Revision = answer.Header.GetRevision()
		}
		p.Left = max(answer.Count-int64(len(answer.Kvs)), 0)
		for _, kv := range answer.Kvs {
			if key := string(kv.GetKey()); key < p.next || !strings.HasPrefix(key, p.Root) {
				return nil, errors.New("it answers with keys that it was not asked for, or in another order")
			}
			p.next = string(kv.GetKey()) + "\x00"
		}
		p.done = !answer.More || len(answer.Kvs) == 0
		return answer.Kvs, nil
	}
}
