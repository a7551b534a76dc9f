package cluster

import (
	"context"
	"encoding/json"
	"fmt"
)

// Value is what the store has under a key, as API servers write it: "/registry/pods/<namespace>/<name>".
func (c *Cluster) Value(ctx context.Context, key string) ([]byte, error) {
	body, err := json.Marshal(map[string][]byte{"key": []byte(key)})
	if err != nil {
		return nil, err
	}
	var found struct {
		KVs []struct{ Value []byte }
	}
	if err := c.etcdSays(ctx, "/v3/kv/range", string(body), &found); err != nil {
		return nil, err
	}
	if len(found.KVs) == 0 {
		return nil, fmt.Errorf("the store has nothing at %s", key)
	}
	return found.KVs[0].Value, nil
}

// SetValue writes past the API server, which sees it as a write of another API server. So an object can change more often than one API
// server can do on the machine of a test.
func (c *Cluster) SetValue(ctx context.Context, key string, value []byte) error {
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return err
	}
	return c.etcdSays(ctx, "/v3/kv/put", string(body), new(struct{}))
}
