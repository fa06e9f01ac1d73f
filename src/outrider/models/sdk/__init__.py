"""Every other provider's wire: pydantic-ai's models, and what differs from ours about them."""
