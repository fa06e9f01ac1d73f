"""Words that tell nothing, words that mean the same, and Chinese words with their English ones."""


def _words(text: str) -> list[str]:
    return text.split()


# In Chinese, the characters that pairs aren't made of.
STOP = frozenset(
    _words("""
    a about above after again all also always am an and any are as at be because been before being
    below between both but by can could did do does doing down during each either else every exactly
    few for from further give gives had has have having he her here his how i if in into is it its
    itself just let like many may me might more most must my never no nor not now of off on once
    only or other our out over own per please same shall she should show shows so some such than
    that the their them then there these they this those through to too under until up us very was
    we were what whatever when where whether which while who whom whose why will with within without
    would you your actually currently explain describe find locate identify look search point
    happens happen tell want wants need needs know thing things way ways kind kinds come comes go
    goes take takes say says said s t don doesn isn aren re ve ll
    的 了 是 在 哪 里 什 么 怎 样 如 何 为 吗 呢 和 与 个 这 那 把 被 会 有 我 你 它 们 吧 请 从 到 对 给
    """)
)
# Looked for only where little else is left.
WEAK = frozenset(
    _words("""
    answer app application behaviour behavior call called calls class classes code codebase
    define defined defines function functions get gets implement implementation implemented
    library logic make makes method methods module modules part parts place places program project
    question repo repository responsible script set sets source system task use used user users
    uses using work works handle handled handles
    """)
)
# Stems of words that code uses for one another, with what it calls them for short.
GROUPS = tuple(
    frozenset(group.split())
    for group in [
        "\n    abort cancel interrupt",
        " application app",
        " argument arg param paramet",
        " ask prompt",
        " connect conn",
        "\n    authentic auth login author",
        " check verifi valid ensur",
        " calcul comput",
        " command cmd",
        " retri attempt",
        "\n    choos chos select pick decid determin resolv",
        " configur config setting option",
        " databas db",
        "\n    creat mak made build built",
        " delet remov clean prun discard drop purg",
        " directori dir folder path",
        "\n    display print rend show",
        " document doc",
        " environ env",
        " error err exception fault fail failur",
        "\n    expression expr",
        " hid mask redact sanitiz",
        " identifi id",
        " initializ init setup",
        " length len size",
        "\n    limit max maximum cap",
        " load read",
        " messag msg",
        " minimum min",
        " number num count",
        " pars decod",
        "\n    previou prev",
        " ref referenc",
        " refus deni reject",
        " repositori repo",
        " request req",
        " respons resp",
        "\n    run execut invok",
        " sav stor persist writ record",
        " send sent emit",
        " serializ encod dump",
        " spec",
        "\n    start begin launch spawn",
        " stop end kill termin shutdown",
        " temporari tmp temp",
        " timeout deadlin",
        "\n    variabl var",
        " version ver",
        " wait sleep delai\n    ",
    ]
)
_CHINESE = _words("""
    超时 timeout 会话 session 校验 validate 验证 validate 历史 history 配置 config 设置 setting
    文件 file 目录 directory 文件夹 folder 路径 path 缓存 cache 日志 log 错误 error 异常 exception
    重试 retry 请求 request 响应 response 服务器 server 服务 service 客户端 client 连接 connection
    数据库 database 数据 data 查询 query 索引 index 搜索 search 查找 find 解析 parse 编码 encode
    解码 decode 序列化 serialize 反序列化 deserialize 加密 encrypt 解密 decrypt 签名 sign 密钥 key
    密码 password 令牌 token 认证 authenticate 登录 login 权限 permission 授权 authorize 用户 user
    角色 role 模型 model 工具 tool 代理 agent,proxy 子代理 subagent 任务 task 进程 process
    子进程 subprocess,child 线程 thread 协程 coroutine 异步 async 同步 sync 并发 concurrent 锁 lock
    队列 queue 消息 message 事件 event 回调 callback 钩子 hook 监听 listen 信号 signal 取消 cancel
    终止 terminate,kill 停止 stop 启动 start 退出 exit 退出码 exit,code 恢复 resume,restore
    保存 save 加载 load 读取 read 写入 write 删除 delete 创建 create 更新 update 复制 copy 移动 move
    替换 replace 合并 merge 拆分 split 排序 sort 过滤 filter 遍历 walk,traverse 转换 convert
    格式 format 打印 print 输出 output 输入 input 参数 argument 选项 option 命令行 cli,command
    命令 command 终端 terminal 颜色 color 表格 table 网络 network 网页 page,web 抓取 fetch
    下载 download 上传 upload 重定向 redirect 地址 address 端口 port 域名 domain,host 主机 host
    请求头 header 正文 body 编译 compile 构建 build 断言 assert 调试 debug 性能 performance
    内存 memory 限制 limit 上限 limit,max 大小 size 长度 length 数量 count 预算 budget 费用 cost
    价格 price 用量 usage 截断 truncate 隐藏 hide 屏蔽 mask 脱敏 mask,redact 秘密 secret 敏感 secret
    清理 clean 检查 check 比较 compare 匹配 match 正则 regex 表达式 expression 字符串 string
    字符 character 数字 number 列表 list 字典 dict 集合 set 数组 array 对象 object 类型 type
    接口 interface 变量 variable 常量 constant 注释 comment 模块 module 依赖 dependency 版本 version
    仓库 repository 分支 branch 提交 commit 差异 diff 补丁 patch 默认 default 环境 environment
    时间 time 日期 date 时区 timezone 定时 timer 间隔 interval 延迟 delay 等待 wait 空闲 idle
    截止 deadline 时限 deadline 心跳 heartbeat 缓冲 buffer 管道 pipe 套接字 socket 协议 protocol
    路由 route 中间件 middleware 模板 template 渲染 render 组件 component 插件 plugin 扩展 extension
    注册 register 注入 inject 装饰器 decorator 上下文 context 状态 state,status 结果 result
    报告 report 记录 record 统计 statistics 监控 monitor 追踪 trace 链接 link 符号链接 symlink
    临时 temporary 备份 backup 压缩 compress 解压 decompress 校验和 checksum 哈希 hash 随机 random
    唯一 unique 标识 id 嵌套 nested 递归 recursive 深度 depth 继承 inherit 迁移 migrate 部署 deploy
    安装 install 初始化 initialize 语言服务器 lsp,language 诊断 diagnostic 定义 definition
    引用 reference 符号 symbol 结构化 structured 模式 schema,mode 提示词 prompt 提供商 provider
    选择 choose,select 拒绝 refuse,deny 允许 allow 信任 trust 沙箱 sandbox 隔离 isolate
    工作区 workspace 收据 receipt 活动 activity 委派 delegate 运行 run 执行 execute 显示 show
    聊天 chat 对话 conversation,chat 覆盖 coverage
""")
GLOSSARY = {
    word: english.split(",") for word, english in zip(_CHINESE[::2], _CHINESE[1::2], strict=True)
}
