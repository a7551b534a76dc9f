package planning

import (
	"context"
	"fmt"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/plan"
	"fairway/internal/plan/remote"
	"fairway/internal/snapshot"
)

// overXDS begins the address of a control plane that is asked over xDS.
const overXDS = "xds://"

// mostAnswer is how long a control plane may take to answer about one proxy.
const mostAnswer = 30 * time.Second

// askOver compares the snapshot's control plane with one that is asked over xDS.
func askOver(ctx context.Context, s Session, base *snapshot.Snapshot, address string) (*plan.Plan, error) {
	conn, err := s.Dial(address)
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	defer conn.Close()
	out, err := plan.Against(ctx, base, func(ctx context.Context, p mesh.Proxy) (remote.Resources, error) {
		ctx, stop := context.WithTimeout(ctx, mostAnswer)
		defer stop()
		return remote.Ask(ctx, conn, p)
	})
	if err != nil {
		return nil, fmt.Errorf("--against %s: %w", overXDS+address, err)
	}
	return out, nil
}
