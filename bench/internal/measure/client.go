package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// get asks the server for what is at path.
func (s Stack) get(ctx context.Context, path string, into any) error {
	body, err := s.request(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// post makes the server do what path says.
func (s Stack) post(ctx context.Context, path string) error {
	_, err := s.request(ctx, http.MethodPost, path)
	return err
}

func (s Stack) request(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.Config.Host+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	if err != nil {
		return nil, fmt.Errorf("ask the server for %s: %w", path, err)
	}
	return body, nil
}
