package authn

import (
	"context"

	"fairway/internal/identity"
)

// Barred is a Method whose callers are refused where their identity is shut out, whatever they proved themselves with.
type Barred struct {
	Method
	Why func(identity.ID) error // why an identity is shut out; nil where it is not
}

// Authenticate is a Method's.
func (b Barred) Authenticate(ctx context.Context, c Credentials) (Caller, error) {
	caller, err := b.Method.Authenticate(ctx, c)
	if err != nil {
		return Caller{}, err
	}
	if err := b.Why(caller.ID); err != nil {
		return Caller{}, refused("%w", err)
	}
	return caller, nil
}
