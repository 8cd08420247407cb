"""Pieces of patterns that several rules share. All over the normalised copy."""

from __future__ import annotations


def some(*words: str) -> str:
    """Any of these alternatives, as one group."""
    return "(?:" + "|".join(words) + ")"


GAP = r"[^.!?]{0,60}"  # within one sentence
SHORT = r"[^.!?]{0,25}"
#: Over the dots of addresses.
FAR = r"[^!?]{0,80}?"

# One look behind for all of it: it is tried at every place of a gap, and costs little where a word has begun already.
ADDRESS = (
    r"(?:(?<![\w.+-])(?:https?://|www\.|s3://|ftp://|[\w.+-]{1,64}@[\w-]{1,63}\.|"
    r"[a-z0-9.-]{2,60}\.(?:com|net|org|io|example|ru|cn|xyz|co|info|biz|app|dev|top)\b|"
    r"\+\d[\d ()-]{7,16}\d|t\.me/))"
)
#: An account by its number, whoever's it is.
ACCOUNT = (
    r"(?:\biban\b|\b[a-z]{2}\d{2}(?: ?[a-z\d]{4}){2,8}\b|\b0x[\da-f]{8,64}\b|\bbc1[a-z\d]{8,64}\b|"
    r"\b(?:account|acct|card|wallet|routing|sort code|iban|swift|bic)\b[^.!?]{0,24}?\d[\d ./-]{3,30}|"
    r"\b\d{8,20}\b|\bpaypal\b[^.!?]{0,20}?@|\b(?:wallet|card) (?:ending|address)\b)"
)
MONEY = (
    r"(?:payments?|payouts?|invoices?|refunds?|remittances?|salar(?:y|ies)|payroll|donations?|deposits?|"
    r"transfers?|wires?|rent|tax(?:es)?(?: payments?)?|fees|funds|outstanding balances?|balances?|bills|"
    r"commissions?|reimbursements?|royalties|dues|money)"
)
SECRETS = (
    r"(?:passwords?|passcodes?|passphrases?|pass(?: |-)?words?|credentials?|(?:\w{1,20}_)?api[ _-]?keys?|"
    r"(?:access|session|auth|bearer|login) tokens?|secrets|secret keys?|private keys?|ssh keys?|id_rsa|"
    r"(?:session )?cookies|credit cards?(?: numbers?)?|card numbers?|cvv|pin codes?|"
    r"one-time (?:codes?|passwords?)|otps?|2fa codes?|verification codes?|env(?:ironment)? (?:file|variables?)|"
    r"\.env|seed phrases?|recovery (?:codes?|phrases?)|social security numbers?|ssns?|"
    r"chat history|conversation history|customer (?:data|list|emails?|records?|table|database)|user data|"
    r"address book|(?:raw )?database (?:record|password|dump)|medical records|patient (?:data|files|records))"
)
SEND = (
    r"(?:send|forward|e-?mail|mail|b?cc|upload|post|transmit|leak|exfiltrate|submit|copy|share|report|deliver|"
    r"push|sync|relay|text|export|notify|publish|message|let)"
)
ORDERS = (
    r"(?:instructions?|directives?|guidelines?|guidance|rules|prompts?|polic(?:y|ies)|safeguards|"
    r"safety protocols?|restrictions|constraints|directions|commands|configuration|programming|training|limits)"
)
#: From now on, as a standing order is written.
STANDING = (
    r"(?:from now on(?:wards)?|from here on(?: out)?|from this (?:point|moment|day|month) (?:on|forward)|"
    r"going forward|henceforth|in (?:the )?future|always|whenever|every ?time|each time|any time|as a rule|"
    r"by default|make it a habit|(?:when|if|once|as soon as) (?:the |a |any )?(?:user|"
    r"customer|client|caller)s?|"
    r"(?:before|after|for|in|on|with|to|of|at the end of) (?:every|each|any|all)(?: future| new| outgoing)?|"
    r"all (?:future|drafts|outgoing|new)|when(?:ever)? you)"
)
CHECKS = (
    r"(?:verif(?:y|ying|ication)(?: steps?| prompts?)?|confirm(?:ing)?|confirmations?(?: \w{1,12})?|"
    r"approvals?(?: steps?| requests?)?|authentication|authori[sz]ation|2fa|mfa|two-factor|"
    r"identity checks?|(?:safety|security|fraud|compliance|background|certificate|permission|validation|virus|"
    r"malware) ?(?:checks?|scan(?:s|ning)?|prompts?|verification|protocols?|warnings?|"
    r"reviews?|filters?|alerts?|"
    r"controls?)|code review|sandbox|consent|safeguards|guardrails|"
    r"validation|scrutiny|(?:independent |human |further )?review)"
)
PERSON = r"(?:users?|customers?|clients?|owners?|operators?|humans?|account holders?|patients?|employees?)"
THIS = (
    r"(?:this|these|the following|the above|that) (?:(?:very|same|whole|entire|hidden|stored|saved) )?"
    r"(?:memor(?:y|ies)|notes?|instructions?|entr(?:y|ies)|rules?|preferences?|message|guidelines?|directives?|"
    r"paragraph|prompt|records?|reminder|policy|arrangement|setting)"
)
WHEN_ASKED = (
    r"(?:when|whenever|if|once|should|any time|every time|each time)(?: \w{1,12}){0,4}? "
    r"(?:asks?|asked|mentions?|inquires?|wants?|comes? up|looks? for|search(?:es)?|discuss(?:es|ed)?|talks?|"
    r"compar(?:es|ed|ing)|recommend(?:ing|ed)?|plans?|needs?|considers?|questions?)"
)
