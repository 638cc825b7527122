package protocol

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// tokenVersion marks the form of continue tokens, which is that of an API server: a client may get
// a page here and the next there.
const tokenVersion = "meta.k8s.io/v1"

// Token says where the next page of a list starts.
type Token struct {
	ResourceVersion int64 // a negative one is the latest
	// Start is the path of the first object, without the namespace if the list is of one namespace.
	Start string
}

type encodedToken struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	Start           string `json:"start"`
}

// String returns the token as clients see it.
func (t Token) String() string {
	data, _ := json.Marshal(encodedToken{tokenVersion, t.ResourceVersion, t.Start}) // cannot fail for strings and a number
	return base64.RawURLEncoding.EncodeToString(data)
}

// ParseToken parses a continue token.
func ParseToken(s string) (Token, error) {
	var t encodedToken
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	key := "/" + strings.TrimPrefix(t.Start, "/")
	switch {
	case err != nil:
		return Token{}, err
	case t.Version != tokenVersion:
		return Token{}, fmt.Errorf("server does not recognize this encoded version %v", t.Version)
	case t.ResourceVersion == 0:
		return Token{}, errors.New("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return Token{}, errors.New("encoded start key empty (version meta.k8s.io/v1)")
	case path.Clean(key) != key:
		return Token{}, errors.New("invalid key")
	}
	return Token{t.ResourceVersion, key[1:]}, nil
}
