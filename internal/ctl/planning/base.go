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
	o := analyze.Options{Namespace: p.namespace, RootNamespace: s.RootNamespace(), Recursive: p.recursive, IgnoreUnknown: true}
	switch {
	case p.cluster && p.on != "":
		return nil, errors.New("--on and --use-kube: want one of them")
	case p.cluster:
		cluster, err := s.Config()
		if err != nil {
			return nil, err
		}
		o.Cluster = cluster
		return analyze.Snapshot(ctx, o)
	case p.on == "":
		return snapshots(ctx, s, d)
	}
	info, err := os.Stat(p.on)
	if err != nil {
		return nil, fmt.Errorf("--on: %w; name a snapshot, an archive of pilotctl bug-report, or a folder of rules", err)
	}
	if info.IsDir() {
		o.Paths = []string{p.on}
		return analyze.Snapshot(ctx, o)
	}
	out, err := snapshot.Open(p.on, d)
	if err != nil {
		return nil, fmt.Errorf("--on: %w", err)
	}
	return out, nil
}
