"""The messages of a conversation: questions, replies, results, and notes of nbagent. Nothing here asks a model."""
