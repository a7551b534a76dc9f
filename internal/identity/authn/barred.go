package authn

import (
	"context"

	"fairway/internal/identity"
)

// Barred is a Method that refuses callers with a barred identity, however they proved it.
type Barred struct {
	Method
	Why func(identity.ID) error // why an identity is barred; nil if it is not
}

// Authenticate implements Method.
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
