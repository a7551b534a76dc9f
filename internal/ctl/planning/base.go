package planning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/ctl/truth"
	"fairway/internal/snapshot"
)

// snapshots asks the selected control planes, and joins their answers: each knows its own proxies.
func snapshots(ctx context.Context, s Session, d *config.Decoder) (*snapshot.Snapshot, error) {
	planes, err := s.Planes(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*snapshot.Snapshot, len(planes))
	for i, p := range planes {
		if all[i], err = snapshotOf(ctx, p, d); err != nil {
			return nil, err
		}
	}
	return snapshot.Merge(all...), nil
}

func snapshotOf(ctx context.Context, p truth.Plane, d *config.Decoder) (*snapshot.Snapshot, error) {
	body, err := p.Get(ctx, "/debug/snapshotz", nil)
	if err != nil {
		return nil, err
	}
	out, err := snapshot.Decode(bytes.NewReader(body), d)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot of %s: %w", p.Called(), err)
	}
	return out, nil
}

// base returns what a change is planned on: that of control planes, of a file, of a folder of rules, or of a cluster.
func (p *flags) base(ctx context.Context, s Session, d *config.Decoder) (*snapshot.Snapshot, error) {
	switch {
	case p.cluster && p.on != "":
		return nil, errors.New("--on and --use-kube: want one of them")
	case p.cluster:
		cluster, err := s.Config()
		if err != nil {
			return nil, err
		}
		o := p.analyzed(s)
		o.Cluster = cluster
		return analyze.Snapshot(ctx, o)
	case p.on != "":
		return p.read(ctx, s, d, "--on", p.on)
	}
	return snapshots(ctx, s, d)
}

// read reads a snapshot, an archive, or a folder of rules that a flag names.
func (p *flags) read(ctx context.Context, s Session, d *config.Decoder, flag, name string) (*snapshot.Snapshot, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; name a snapshot, an archive of pilotctl bug-report, or a folder of rules", flag, err)
	}
	if info.IsDir() {
		o := p.analyzed(s)
		o.Paths = []string{name}
		return analyze.Snapshot(ctx, o)
	}
	out, err := snapshot.Open(name, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return out, nil
}

func (p *flags) analyzed(s Session) analyze.Options {
	return analyze.Options{Namespace: p.namespace, RootNamespace: s.RootNamespace(), Recursive: p.recursive, IgnoreUnknown: true}
}
